#pragma once

#include "wick/kernels/cuda/common/real.h"
#include "wick/kernels/special_math.h"

// The functions that elementwise_ops_special.h names, of a Real.
namespace wick::fn {

#define WICK_REAL_FUNCTION(name, function)                         \
  template <class T, bool kQuick>                                  \
  WICK_HOST_DEVICE Real<T, kQuick> name(Real<T, kQuick> x) {       \
    return Real<T, kQuick>::of(static_cast<T>(function(x.value))); \
  }
#define WICK_REAL_PAIR(name)                                                    \
  template <class T, bool kQuick>                                               \
  WICK_HOST_DEVICE Real<T, kQuick> name(Real<T, kQuick> x, Real<T, kQuick> y) { \
    return Real<T, kQuick>::of(static_cast<T>(::name(x.value, y.value)));       \
  }
WICK_REAL_FUNCTION(exp2, ::exp2)
WICK_REAL_FUNCTION(log10, ::log10)
WICK_REAL_FUNCTION(asin, ::asin)
WICK_REAL_FUNCTION(acos, ::acos)
WICK_REAL_FUNCTION(atan, ::atan)
WICK_REAL_FUNCTION(sinh, ::sinh)
WICK_REAL_FUNCTION(cosh, ::cosh)
WICK_REAL_FUNCTION(asinh, ::asinh)
WICK_REAL_FUNCTION(acosh, ::acosh)
WICK_REAL_FUNCTION(atanh, ::atanh)
WICK_REAL_FUNCTION(erfc, ::erfc)
WICK_REAL_FUNCTION(erfinv, erfinv_of)
WICK_REAL_FUNCTION(lgamma, lgamma_of)
WICK_REAL_FUNCTION(digamma, digamma_of)
WICK_REAL_FUNCTION(trigamma, trigamma_of)
WICK_REAL_PAIR(copysign)
WICK_REAL_PAIR(fmod)
#undef WICK_REAL_FUNCTION
#undef WICK_REAL_PAIR

/// CUDA's overflows where the result nearly does.
template <class T, bool kQuick>
WICK_HOST_DEVICE Real<T, kQuick> hypot(Real<T, kQuick> x, Real<T, kQuick> y) {
  using V = Real<T, kQuick>;
  if constexpr (sizeof(T) == 8) {
    const T a = ::fabs(x.value), b = ::fabs(y.value), large = a > b ? a : b;
    if (large > 0x1p1000 && large - large == 0) {
      const T share = (a > b ? b : a) / large;
      return V::of(large * ::sqrt(1 + share * share));
    }
  }
  return V::of(::hypot(x.value, y.value));
}

}  // namespace wick::fn
