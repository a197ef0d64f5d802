#pragma once

#include "wick/kernels/elementwise_ops.h"

namespace wick::fn {

struct Relu : OnNumbers<1> {
  static constexpr char name[] = "relu";
  static constexpr Keep keep = Keep::kOutput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return max(x, V(0));
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V y) const {
    return select(y <= 0.0, 0.0, dy);
  }
};

/// min(max(x, 0), 6)
struct Relu6 : OnNumbers<1> {
  static constexpr char name[] = "relu6";
  static constexpr Keep keep = Keep::kOutput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return min(max(x, V(0)), V(6));
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V y) const {
    return select(y <= 0.0, 0.0, select(y >= 6.0, 0.0, dy));
  }
};

/// Phi(x), the normal distribution's cumulative function.
template <class V>
WICK_HOST_DEVICE V normal_cdf(V x) {
  return erf(x * 0.707106781186547524) * 0.5 + 0.5;  // sqrt(1 / 2)
}

/// x Phi(x)
struct Gelu : OnFloats<1> {
  static constexpr char name[] = "gelu";
  static constexpr Keep keep = Keep::kInput;
  static constexpr double kDensity = 0.398942280401432678;  // 1 / sqrt(2 pi)
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x * normal_cdf(x);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return dy * (normal_cdf(x) + x * (exp(x * x * -0.5) * kDensity));
  }
};

/// Gelu's approximation by tanh.
struct GeluTanh : OnFloats<1> {
  static constexpr char name[] = "gelu_tanh";
  static constexpr Keep keep = Keep::kInput;
  static constexpr double kScale = 0.797884560802865356;  // sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x * 0.5 * (tanh(x * (x * x * kCubic + 1.0) * kScale) + 1.0);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    const V x2 = x * x;
    const V t = tanh(x * (x2 * kCubic + 1.0) * kScale);
    const V inner = (x2 * (3.0 * kCubic) + 1.0) * kScale;
    return dy * ((t + 1.0) * 0.5 + x * 0.5 * ((1.0 - t * t) * inner));
  }
};

struct Silu : OnFloats<1> {
  static constexpr char name[] = "silu";
  static constexpr Keep keep = Keep::kInput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x / (exp(-x) + 1.0);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    const V s = sigmoid(x);
    return dy * (s * (x * (1.0 - s) + 1.0));
  }
};

/// x tanh(log(1 + exp(x)))
struct Mish : OnFloats<1> {
  static constexpr char name[] = "mish";
  static constexpr Keep keep = Keep::kInput;
  // tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2) for e = exp(x), which must not overflow: beyond
  // 20 it is 1 to all digits.
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    const V e = exp(select(x > 20.0, 20.0, x));
    const V n = e * (e + 2.0);
    return x * (n / (n + 2.0));
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    const V e = exp(select(x > 20.0, 20.0, x));
    const V n = e * (e + 2.0);
    const V t = n / (n + 2.0);
    return dy * (t + x * (e / (e + 1.0)) * (1.0 - t * t));
  }
};

/// x / (1 + |x|)
struct Softsign : OnFloats<1> {
  static constexpr char name[] = "softsign";
  static constexpr Keep keep = Keep::kInput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x / (select(x < 0.0, -x, x) + 1.0);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    const V size = select(x < 0.0, -x, x) + 1.0;
    return dy / (size * size);
  }
};

/// x min(max(x + 3, 0), 6) / 6
struct Hardswish : OnFloats<1> {
  static constexpr char name[] = "hardswish";
  static constexpr Keep keep = Keep::kInput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x * min(max(x + V(3), V(0)), V(6)) / V(6);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return select(x <= -3.0, 0.0, select(x < 3.0, dy * (x / 3.0 + 0.5), dy));
  }
};

/// min(max(x + 3, 0), 6) / 6
struct Hardsigmoid : OnFloats<1> {
  static constexpr char name[] = "hardsigmoid";
  static constexpr Keep keep = Keep::kInput;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return min(max(x + V(3), V(0)), V(6)) / V(6);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return select(x > -3.0, select(x < 3.0, dy / 6.0, 0.0), 0.0);
  }
};

/// log(1 + exp(beta x)) / beta; x itself where beta x is above `threshold`.
struct Softplus : OnFloats<1> {
  static constexpr char name[] = "softplus";
  static constexpr Keep keep = Keep::kInput;
  double beta = 1;
  double threshold = 20;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    const V scaled = x * beta;
    return select(scaled > V(threshold), x, log1p(exp(scaled)) / V(beta));
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    const V scaled = x * beta;
    return select(scaled > threshold, dy, dy * sigmoid(scaled));
  }
};

struct LeakyRelu : OnFloats<1> {
  static constexpr char name[] = "leaky_relu";
  static constexpr Keep keep = Keep::kInput;
  double negative_slope = 0.01;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return select(x > V(0), x, x * negative_slope);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return select(x > 0.0, dy, dy * negative_slope);
  }
};

/// x for positive x, else alpha (exp(x) - 1).
struct Elu : OnFloats<1> {
  static constexpr char name[] = "elu";
  static constexpr Keep keep = Keep::kInput;
  double alpha = 1;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return select(x > V(0), x, expm1(x) * alpha);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    // The exponential of the unchosen side must not overflow: its gradient would be 0 times that.
    return select(x > 0.0, dy, dy * (exp(select(x > 0.0, x * 0.0, x)) * alpha));
  }
};

/// min(max(x, low), high). The gradient passes at the bounds.
struct Clamp : OnNumbers<1> {
  static constexpr char name[] = "clamp";
  static constexpr Keep keep = Keep::kInput;
  Number low{-__builtin_inf(), INT64_MIN};
  Number high{__builtin_inf(), INT64_MAX};
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return min(max(x, low.as<V>()), high.as<V>());
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return select(x > low.real, select(x < high.real, dy, 0.0), 0.0);
  }
};

}  // namespace wick::fn

/// The functors of this file that have a gradient, for lists of kernels: `use(F)` each.
#define WICK_ACTIVATION_DIFFERENTIABLE(use)                                                      \
  use(fn::Relu) use(fn::Relu6) use(fn::Mish) use(fn::Softsign) use(fn::Gelu) use(fn::GeluTanh)   \
      use(fn::Silu) use(fn::Hardswish) use(fn::Hardsigmoid) use(fn::Softplus) use(fn::LeakyRelu) \
          use(fn::Elu) use(fn::Clamp)
