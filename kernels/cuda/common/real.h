#pragma once

#include <cmath>

#include "wick/core/base/macros.h"

namespace wick::fn {

/// A float or double as the functors of elementwise_ops.h take it: constants in their text, which
/// are doubles, become T, and the functions they name are found with the type.
template <class T>
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
  friend WICK_HOST_DEVICE Real sigmoid(Real x) { return of(T{1} / (T{1} + ::exp(-x.value))); }
  friend WICK_HOST_DEVICE Real rsqrt(Real x) { return of(T{1} / ::sqrt(x.value)); }
  friend WICK_HOST_DEVICE Real pow(Real x, Real y) { return of(::pow(x.value, y.value)); }
  /// To the nearest integer, halves to the even one.
  friend WICK_HOST_DEVICE Real round(Real x) { return of(::rint(x.value)); }

#define WICK_REAL_FUNCTION(name) \
  friend WICK_HOST_DEVICE Real name(Real x) { return of(::name(x.value)); }
  WICK_REAL_FUNCTION(exp)
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

}  // namespace wick::fn
