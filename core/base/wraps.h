#pragma once

/// Before a function whose unsigned integers wrap as they shall: clang's sanitizers are told so.
#ifdef __clang__
#define WICK_WRAPS __attribute__((no_sanitize("unsigned-integer-overflow")))
#else
#define WICK_WRAPS
#endif
