#include "wick/kernels/elementwise_ops_special.h"

#include "wick/kernels/cpu/elementwise_loop.h"
#include "wick/kernels/elementwise_ops_shrink.h"
#include "wick/kernels/special_math.h"

namespace wick::WICK_ISA {

// Lane by lane by a function of numbers.
#define WICK_EACH_LANE(name, function)                            \
  template <class T>                                              \
  WICK_INLINE Vec<T> name(Vec<T> x) {                             \
    T lanes[Vec<T>::size];                                        \
    x.store(lanes);                                               \
    for (T & lane : lanes) lane = static_cast<T>(function(lane)); \
    return Vec<T>::load(lanes);                                   \
  }
#define WICK_EACH_PAIR(name, function)                                                      \
  template <class T>                                                                        \
  WICK_INLINE Vec<T> name(Vec<T> x, std::type_identity_t<Vec<T>> y) {                       \
    T a[Vec<T>::size], b[Vec<T>::size];                                                     \
    x.store(a);                                                                             \
    y.store(b);                                                                             \
    for (int64_t i = 0; i < Vec<T>::size; ++i) a[i] = static_cast<T>(function(a[i], b[i])); \
    return Vec<T>::load(a);                                                                 \
  }
WICK_EACH_LANE(exp2, ::exp2)
WICK_EACH_LANE(log10, ::log10)
WICK_EACH_LANE(asin, ::asin)
WICK_EACH_LANE(acos, ::acos)
WICK_EACH_LANE(atan, ::atan)
WICK_EACH_LANE(sinh, ::sinh)
WICK_EACH_LANE(cosh, ::cosh)
WICK_EACH_LANE(asinh, ::asinh)
WICK_EACH_LANE(acosh, ::acosh)
WICK_EACH_LANE(atanh, ::atanh)
WICK_EACH_LANE(erfc, ::erfc)
WICK_EACH_LANE(erfinv, fn::erfinv_of)
WICK_EACH_LANE(lgamma, fn::lgamma_of)
WICK_EACH_LANE(digamma, fn::digamma_of)
WICK_EACH_LANE(trigamma, fn::trigamma_of)
WICK_EACH_PAIR(fmod, ::fmod)
WICK_EACH_PAIR(hypot, ::hypot)
#undef WICK_EACH_LANE
#undef WICK_EACH_PAIR

WICK_SPECIAL_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)
WICK_SPECIAL_PLAIN(WICK_INSTANTIATE)
WICK_SHRINK_DIFFERENTIABLE(WICK_INSTANTIATE_DIFFERENTIABLE)

}  // namespace wick::WICK_ISA
