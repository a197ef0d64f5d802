#pragma once

#include "wick/kernels/elementwise_ops.h"

namespace wick::fn {

struct Neg : OnNumbers<1> {
  static constexpr char name[] = "neg";
  static constexpr Keep keep = Keep::kNothing;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return -x;
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V) const {
    return -dy;
  }
};

struct Abs : OnNumbers<1> {
  static constexpr char name[] = "abs";
  static constexpr Keep keep = Keep::kInput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return abs(x);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return select(x > 0.0, dy, select(x < 0.0, -dy, dy * 0.0));
  }
};

struct Square : OnNumbers<1> {
  static constexpr char name[] = "square";
  static constexpr Keep keep = Keep::kInput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x * x;
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return dy * x * 2.0;
  }
};

/// -1, 0 or 1; 0 for NaN, as PyTorch.
struct Sign : OnNumbers<1> {
  static constexpr char name[] = "sign";
  static constexpr Keep keep = Keep::kNothing;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return select(x > V(0), V(1), select(x < V(0), V(-1), V(0)));
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V) const {
    return dy * 0.0;
  }
};

WICK_FUNCTOR(Exp, exp, kOutput, dy* s);
WICK_FUNCTOR(Log, log, kInput, dy / s);
WICK_FUNCTOR(Log1p, log1p, kInput, dy / (s + 1.0));
WICK_FUNCTOR(Expm1, expm1, kOutput, dy*(s + 1.0));
WICK_FUNCTOR(Sqrt, sqrt, kOutput, dy / (s * 2.0));
WICK_FUNCTOR(Rsqrt, rsqrt, kOutput, dy*(s* s* s) * -0.5);
WICK_FUNCTOR(Sin, sin, kInput, dy* cos(s));
WICK_FUNCTOR(Cos, cos, kInput, -(dy* sin(s)));
WICK_FUNCTOR(Erf, erf, kInput, dy*(exp(-(s* s)) * 1.12837916709551257));  // 2 / sqrt(pi)
WICK_FUNCTOR(Tanh, tanh, kOutput, dy*(1.0 - s * s));
WICK_FUNCTOR(Sigmoid, sigmoid, kOutput, dy*(s*(1.0 - s)));
WICK_FUNCTOR(Floor, floor, kNothing, dy * 0.0);
WICK_FUNCTOR(Ceil, ceil, kNothing, dy * 0.0);
WICK_FUNCTOR(Round, round, kNothing, dy * 0.0);
WICK_FUNCTOR(Trunc, trunc, kNothing, dy * 0.0);

struct Reciprocal : OnFloats<1> {
  static constexpr char name[] = "reciprocal";
  static constexpr Keep keep = Keep::kOutput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return V(1) / x;
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V y) const {
    return -(dy * (y * y));
  }
};

}  // namespace wick::fn

/// The functors of this file that have a gradient, for lists of kernels: `use(F)` each.
#define WICK_MATH_DIFFERENTIABLE(use)                                                              \
  use(fn::Neg) use(fn::Abs) use(fn::Square) use(fn::Sign) use(fn::Exp) use(fn::Log) use(fn::Log1p) \
      use(fn::Expm1) use(fn::Sqrt) use(fn::Rsqrt) use(fn::Sin) use(fn::Cos) use(fn::Erf)           \
          use(fn::Tanh) use(fn::Sigmoid) use(fn::Floor) use(fn::Ceil) use(fn::Round)               \
              use(fn::Trunc) use(fn::Reciprocal)
