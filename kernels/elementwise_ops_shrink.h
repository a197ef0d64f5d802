#pragma once

#include "wick/kernels/elementwise_ops.h"

// Activation functions with thresholds, and what is made of exp.
namespace wick::fn {

/// x, but 0 within [-lambd, lambd].
struct Hardshrink : OnFloats<1> {
  static constexpr char name[] = "hardshrink";
  static constexpr Keep keep = Keep::kInput;
  double lambd = 0.5;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return select(abs(x) <= V(lambd), V(0), x);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return select(abs(x) <= lambd, dy * 0.0, dy);
  }
};

/// x brought towards 0 by lambd.
struct Softshrink : OnFloats<1> {
  static constexpr char name[] = "softshrink";
  static constexpr Keep keep = Keep::kInput;
  double lambd = 0.5;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return select(x > V(lambd), x - V(lambd), select(x < V(-lambd), x + V(lambd), x * V(0)));
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return select(abs(x) <= lambd, dy * 0.0, dy);
  }
};

/// x - tanh(x)
struct Tanhshrink : OnFloats<1> {
  static constexpr char name[] = "tanhshrink";
  static constexpr Keep keep = Keep::kInput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x - tanh(x);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    const V t = tanh(x);
    return dy * (t * t);
  }
};

/// x above `threshold`, else `value`; NaN stays NaN.
struct Threshold : OnNumbers<1> {
  static constexpr char name[] = "threshold";
  static constexpr Keep keep = Keep::kInput;
  Number threshold, value;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return select(x <= threshold.as<V>(), value.as<V>(), x);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return select(x <= threshold.real, dy * 0.0, dy);
  }
};

/// min(max(x, low), high), whose gradient is 0 at the bounds.
struct Hardtanh : OnNumbers<1> {
  static constexpr char name[] = "hardtanh";
  static constexpr Keep keep = Keep::kInput;
  Number low{-1, -1}, high{1, 1};
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return min(max(x, low.as<V>()), high.as<V>());
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return select(x <= low.real, dy * 0.0, select(x >= high.real, dy * 0.0, dy));
  }
};

/// log(1 / (1 + exp(-x))) without overflow.
struct LogSigmoid : OnFloats<1> {
  static constexpr char name[] = "logsigmoid";
  static constexpr Keep keep = Keep::kInput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return min(x, V(0)) - log1p(exp(-abs(x)));
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return dy * sigmoid(-x);
  }
};

/// scale x for positive x, else scale alpha (exp(input_scale x) - 1): selu and celu.
struct ScaledElu : OnFloats<1> {
  static constexpr char name[] = "scaled_elu";
  static constexpr Keep keep = Keep::kInput;
  double alpha = 1, scale = 1, input_scale = 1;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    const V below = expm1(min(x, V(0)) * V(input_scale)) * V(alpha * scale);
    return select(x > V(0), x * V(scale), below);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    const V below = select(x > 0.0, x * 0.0, x) * input_scale;
    return select(x > 0.0, dy * scale, dy * (exp(below) * (alpha * scale * input_scale)));
  }
};

}  // namespace wick::fn

/// The functors of this file, for lists of kernels: `use(F)` each.
#define WICK_SHRINK_DIFFERENTIABLE(use)                                                            \
  use(fn::Hardshrink) use(fn::Softshrink) use(fn::Tanhshrink) use(fn::Threshold) use(fn::Hardtanh) \
      use(fn::LogSigmoid) use(fn::ScaledElu)
