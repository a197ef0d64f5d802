// Defaults of the sanitizers, linked into every program that is built with one.

extern "C" {

const char* __tsan_default_options();
const char* __ubsan_default_options();

// The system's libraries are not built for ThreadSanitizer.
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

#ifdef WICK_STOP_AT_INTEGERS
const char* __ubsan_default_options() { return "print_stacktrace=1:halt_on_error=1"; }
#else
const char* __ubsan_default_options() { return "print_stacktrace=1"; }
#endif

}  // extern "C"
