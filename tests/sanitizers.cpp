// Defaults of the sanitizers, linked into every program that is built with one.

extern "C" {

const char* __lsan_default_suppressions();
const char* __lsan_default_options();
const char* __tsan_default_options();
const char* __ubsan_default_options();

// libomp forgets the teams of threads it no longer uses.
const char* __lsan_default_suppressions() { return "leak:libomp.so\n"; }
const char* __lsan_default_options() { return "print_suppressions=0"; }

// The OpenMP runtime tells ThreadSanitizer about its barriers (libarcher), but is not built for it.
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

#ifdef WICK_STOP_AT_INTEGERS
const char* __ubsan_default_options() { return "print_stacktrace=1:halt_on_error=1"; }
#else
const char* __ubsan_default_options() { return "print_stacktrace=1"; }
#endif

}  // extern "C"
