#pragma once

#include "wick/kernels/elementwise_ops.h"

namespace wick::fn {

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

/// x^exponent
struct PowScalar : OnNumbers<1> {
  static constexpr char name[] = "pow_scalar";
  static constexpr Keep keep = Keep::kInput;
  Number exponent;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
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
#define WICK_ARITHMETIC_PLAIN(use) \
  use(fn::Add) use(fn::Mul) use(fn::Div) use(fn::Pow) use(fn::Maximum) use(fn::Minimum)
