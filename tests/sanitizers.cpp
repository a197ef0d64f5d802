// Defaults of the sanitizers, linked into every program that is built with one.

extern "C" {

const char* __ubsan_default_options();

#ifdef WICK_STOP_AT_INTEGERS
const char* __ubsan_default_options() { return "print_stacktrace=1:halt_on_error=1"; }
#else
const char* __ubsan_default_options() { return "print_stacktrace=1"; }
#endif

}  // extern "C"
