#pragma once

#include "wick/core/fields.h"
#include "wick/kernels/elementwise_ops.h"

/// gate * sigmoid(gate) * up
struct Swiglu : wick::fn::OnFloats<2> {
  static constexpr char name[] = "swiglu";
  template <class V>
  WICK_HOST_DEVICE V operator()(V gate, V up) const {
    return gate * sigmoid(gate) * up;
  }
  template <int kInput, class V>
  WICK_HOST_DEVICE V gradient(V dy, V gate, V up) const {
    const V s = sigmoid(gate);
    if constexpr (kInput == 0) return dy * up * (s + gate * s * (1.0 - s));
    return dy * gate * s;
  }
};

/// x * sigmoid(beta x)
struct Swish : wick::fn::OnFloats<1> {
  static constexpr char name[] = "swish";
  double beta;
  static constexpr auto fields = std::tuple{wick::field("beta", &Swish::beta)};
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x * sigmoid(x * beta);
  }
  template <int kInput, class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    const V s = sigmoid(x * beta);
    return dy * (s + x * beta * s * (1.0 - s));
  }
};
