#pragma once

#include "wick/core/tensor.h"

// Activation functions of each element, of any shape; the result has x's shape and dtype.
// Integers become float32, but for relu. sigmoid and tanh are in elementwise.h.

namespace wick {

/// max(x, 0); NaN stays NaN.
Tensor relu(const Tensor& x);

/// How gelu is computed.
enum class GeluApproximation : uint8_t { kNone, kTanh };

/// x times the normal distribution's cumulative function at x, or its approximation by tanh.
/// Hendrycks, Gimpel: Gaussian error linear units (2016).
Tensor gelu(const Tensor& x, GeluApproximation approximation = GeluApproximation::kNone);
/// x sigmoid(x)
Tensor silu(const Tensor& x);
/// x min(max(x + 3, 0), 6) / 6
Tensor hardswish(const Tensor& x);
/// min(max(x + 3, 0), 6) / 6
Tensor hardsigmoid(const Tensor& x);
/// log(1 + exp(beta x)) / beta; x itself where beta x is above `threshold`.
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
/// x for positive x, else negative_slope x.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
/// x for positive x, else alpha (exp(x) - 1).
Tensor elu(const Tensor& x, double alpha = 1);

}  // namespace wick
