#pragma once

#include <cmath>

#include "wick/core/base/macros.h"
#include "wick/kernels/cuda/common/quick_math.h"

namespace wick::fn {

/// A float or double as the functors of elementwise_ops.h take it: constants in their text, which
/// are doubles, become T, and the functions they name are found with the type. kQuick: results are
/// rounded to 16 bits, so that the functions of quick_math.h do.
template <class T, bool kQuick = false>
struct Real {
  T value;

  Real() = default;
  WICK_HOST_DEVICE Real(double v) : value(static_cast<T>(v)) {}
  WICK_HOST_DEVICE explicit Real(float v) : value(v) {}
  WICK_HOST_DEVICE explicit Real(int v) : value(static_cast<T>(v)) {}
  WICK_HOST_DEVICE static Real of(T v) {
    Real r;
    r.value = v;
    return r;
  }

  friend WICK_HOST_DEVICE Real operator+(Real a, Real b) { return of(a.value + b.value); }
  friend WICK_HOST_DEVICE Real operator-(Real a, Real b) { return of(a.value - b.value); }
  friend WICK_HOST_DEVICE Real operator*(Real a, Real b) { return of(a.value * b.value); }
  friend WICK_HOST_DEVICE Real operator/(Real a, Real b) { return of(a.value / b.value); }
  friend WICK_HOST_DEVICE Real operator-(Real a) { return of(-a.value); }
  friend WICK_HOST_DEVICE bool operator==(Real a, Real b) { return a.value == b.value; }
  friend WICK_HOST_DEVICE bool operator!=(Real a, Real b) { return a.value != b.value; }
  friend WICK_HOST_DEVICE bool operator<(Real a, Real b) { return a.value < b.value; }
  friend WICK_HOST_DEVICE bool operator<=(Real a, Real b) { return a.value <= b.value; }
  friend WICK_HOST_DEVICE bool operator>(Real a, Real b) { return a.value > b.value; }
  friend WICK_HOST_DEVICE bool operator>=(Real a, Real b) { return a.value >= b.value; }

  friend WICK_HOST_DEVICE Real select(bool condition, Real a, Real b) { return condition ? a : b; }
  /// NaN if either is.
  friend WICK_HOST_DEVICE Real max(Real a, Real b) {
    return a.value > b.value || a.value != a.value ? a : b;
  }
  friend WICK_HOST_DEVICE Real min(Real a, Real b) {
    return a.value < b.value || a.value != a.value ? a : b;
  }
  friend WICK_HOST_DEVICE Real abs(Real x) { return of(::fabs(x.value)); }
  friend WICK_HOST_DEVICE Real exp(Real x) {
    if constexpr (kQuick) return of(quick_exp(x.value));
    return of(::exp(x.value));
  }
  friend WICK_HOST_DEVICE Real sigmoid(Real x) {
    const T divisor = T{1} + exp(-x).value;
    if constexpr (kQuick) return of(quick_reciprocal(divisor));
    return of(T{1} / divisor);
  }
  friend WICK_HOST_DEVICE Real rsqrt(Real x) { return of(T{1} / ::sqrt(x.value)); }
  friend WICK_HOST_DEVICE Real pow(Real x, Real y) { return of(::pow(x.value, y.value)); }
  /// To the nearest integer, halves to the even one.
  friend WICK_HOST_DEVICE Real round(Real x) { return of(::rint(x.value)); }

#define WICK_REAL_FUNCTION(name) \
  friend WICK_HOST_DEVICE Real name(Real x) { return of(::name(x.value)); }
  WICK_REAL_FUNCTION(expm1)
  WICK_REAL_FUNCTION(log)
  WICK_REAL_FUNCTION(log1p)
  WICK_REAL_FUNCTION(sqrt)
  WICK_REAL_FUNCTION(sin)
  WICK_REAL_FUNCTION(cos)
  WICK_REAL_FUNCTION(tanh)
  WICK_REAL_FUNCTION(erf)
  WICK_REAL_FUNCTION(floor)
  WICK_REAL_FUNCTION(ceil)
  WICK_REAL_FUNCTION(trunc)
#undef WICK_REAL_FUNCTION
};

/// The cumulative function of the normal distribution, with an error of 1e-7 (Abramowitz and
/// Stegun, Handbook of Mathematical Functions, 1964, 7.1.26). Its exponential is the density's.
WICK_HOST_DEVICE Real<float, true> normal_cdf(Real<float, true> x) {
  using V = Real<float, true>;
  constexpr double kRootHalf = 0.707106781186547524;
  const V t = V::of(quick_reciprocal((abs(x) * (0.3275911 * kRootHalf) + 1.0).value));
  const V series =
      t * (t * (t * (t * (t * 0.5307027145 - 0.7265760135) + 0.7107068705) - 0.142248368) +
           0.127414796);
  const V tail = series * exp(x * x * -0.5);
  return select(x < 0.0, tail, 1.0 - tail);
}

}  // namespace wick::fn
