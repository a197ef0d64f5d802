#pragma once

#include "wick/kernels/elementwise_ops.h"

namespace wick::fn {

/// x, whose result is of another dtype
struct Identity : OnNumbers<1> {
  static constexpr char name[] = "identity";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x;
  }
};

/// x + alpha y
struct Add : OnNumbers<2> {
  static constexpr char name[] = "add";
  Number alpha{1, 1};
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return x + alpha.as<V>() * y;
  }
};

struct Mul : OnNumbers<2> {
  static constexpr char name[] = "mul";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return x * y;
  }
};

struct Div : OnFloats<2> {
  static constexpr char name[] = "div";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return x / y;
  }
};

struct Pow : OnNumbers<2> {
  static constexpr char name[] = "pow";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return pow(x, y);
  }
};

/// NaN if either is NaN.
struct Maximum : OnNumbers<2> {
  static constexpr char name[] = "maximum";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return max(x, y);
  }
};
struct Minimum : OnNumbers<2> {
  static constexpr char name[] = "minimum";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return min(x, y);
  }
};

/// The angle of (x, y). Of the smaller over the larger of |y| and |x| the arc tangent is taken, as
/// that of the nearest of 0, tan(pi / 8) and 1, and of what is left: an angle within pi / 16, where
/// 12 terms of Taylor's series give all places of a double.
struct Atan2 : OnFloats<2> {
  static constexpr char name[] = "atan2";
  static constexpr double kPi = 3.14159265358979324;

  template <class V>
  WICK_HOST_DEVICE V operator()(V y, V x) const {
    const V ax = abs(x), ay = abs(y), zero = V(0), one = V(1);
    const V large = max(ax, ay), small = min(ax, ay);
    const V equal = select(large == zero, zero, one);  // of 0 / 0 and inf / inf, too
    const V t = select(large == small, equal, small / large);
    const V angle = first_octant(t);
    const V quadrant = select(ay > ax, V(kPi / 2) - angle, angle);
    const V half = select(signed_zero(x) < zero, V(kPi) - quadrant, quadrant);
    return select(signed_zero(y) < zero, -half, half);
  }

 private:
  // For t in [0, 1].
  template <class V>
  WICK_HOST_DEVICE static V first_octant(V t) {
    const auto past_pi_16 = t > V(0.198912367379658007);
    const auto past_3_pi_16 = t > V(0.668178637919298920);
    const V near = select(past_3_pi_16, V(1), select(past_pi_16, V(0.414213562373095049), V(0)));
    const V base = select(past_3_pi_16, V(kPi / 4), select(past_pi_16, V(kPi / 8), V(0)));
    const V left = (t - near) / (V(1) + t * near);
    const V square = left * left;
    V series = V(1.0 / 23);
    for (int k = 21; k >= 1; k -= 2) series = V(1.0 / k) - square * series;
    return base + left * series;
  }
  // Negative for -0 too.
  template <class V>
  WICK_HOST_DEVICE static V signed_zero(V v) {
    return select(v == V(0), V(1) / v, v);
  }
};

// --- With one constant --------------------------------------------------------------------------

/// x + other
struct AddScalar : OnNumbers<1> {
  static constexpr char name[] = "add_scalar";
  static constexpr Keep keep = Keep::kNothing;
  Number other;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x + other.as<V>();
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V) const {
    return dy;
  }
};

/// x other
struct MulScalar : OnNumbers<1> {
  static constexpr char name[] = "mul_scalar";
  static constexpr Keep keep = Keep::kNothing;
  Number other;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x * other.as<V>();
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V) const {
    return dy * other.real;
  }
};

/// x / other
struct DivScalar : OnFloats<1> {
  static constexpr char name[] = "div_scalar";
  static constexpr Keep keep = Keep::kNothing;
  Number other;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x / other.as<V>();
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V) const {
    return dy / other.real;
  }
};

/// other - x
struct SubFromScalar : OnNumbers<1> {
  static constexpr char name[] = "sub_from_scalar";
  static constexpr Keep keep = Keep::kNothing;
  Number other;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return other.as<V>() - x;
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V) const {
    return -dy;
  }
};

/// other / x
struct DivScalarBy : OnFloats<1> {
  static constexpr char name[] = "div_scalar_by";
  static constexpr Keep keep = Keep::kInput;
  Number other;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return other.as<V>() / x;
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return dy * (-other.real) / (x * x);
  }
};

/// x^exponent. -0 to the -0.5 is -infinity, as 1 / sqrt(-0).
struct PowScalar : OnNumbers<1> {
  static constexpr char name[] = "pow_scalar";
  static constexpr Keep keep = Keep::kInput;
  Number exponent;
  WICK_HOST_DEVICE Integer operator()(Integer x) const { return pow(x, exponent.as<Integer>()); }
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    if (exponent.real == -0.5) return rsqrt(x);
    return pow(x, exponent.as<V>());
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    if (exponent.real == 0.0) return dy * 0.0;
    return dy * (pow(x, exponent.real - 1.0) * exponent.real);
  }
};

}  // namespace wick::fn

/// The functors of this file that have a gradient, for lists of kernels: `use(F)` each.
#define WICK_ARITHMETIC_DIFFERENTIABLE(use)                                       \
  use(fn::AddScalar) use(fn::MulScalar) use(fn::DivScalar) use(fn::SubFromScalar) \
      use(fn::DivScalarBy) use(fn::PowScalar)

/// Those without: gradients that are ops of their own, or none.
#define WICK_ARITHMETIC_PLAIN(use)                                                     \
  use(fn::Identity) use(fn::Add) use(fn::Mul) use(fn::Div) use(fn::Pow) use(fn::Atan2) \
      use(fn::Maximum) use(fn::Minimum)
