#include "wick/kernels/elementwise_ops_special.h"

#include "wick/kernels/cuda/elementwise_loop.h"
#include "wick/kernels/elementwise_ops_shrink.h"
#include "wick/kernels/special_math.h"

namespace wick::fn {

#define WICK_REAL_FUNCTION(name, function)                 \
  template <class T>                                       \
  WICK_HOST_DEVICE Real<T> name(Real<T> x) {               \
    return Real<T>::of(static_cast<T>(function(x.value))); \
  }
#define WICK_REAL_PAIR(name)                                      \
  template <class T>                                              \
  WICK_HOST_DEVICE Real<T> name(Real<T> x, Real<T> y) {           \
    return Real<T>::of(static_cast<T>(::name(x.value, y.value))); \
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
WICK_REAL_PAIR(hypot)
#undef WICK_REAL_FUNCTION
#undef WICK_REAL_PAIR

}  // namespace wick::fn

namespace wick::cuda {

WICK_SPECIAL_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)
WICK_SPECIAL_PLAIN(WICK_INSTANTIATE)
WICK_SHRINK_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::cuda
