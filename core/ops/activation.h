#pragma once

#include "wick/core/tensor.h"

// Activation functions of each element, of any shape; but for glu, the result has x's shape and
// dtype. Integers become float32, but for relu. sigmoid and tanh are in elementwise.h.

namespace wick {

/// max(x, 0); NaN stays NaN.
Tensor relu(const Tensor& x);

/// min(max(x, 0), 6)
Tensor relu6(const Tensor& x);

/// How gelu is computed.
enum class GeluApproximation : uint8_t { kNone, kTanh };

/// x times the normal distribution's cumulative function at x, or its approximation by tanh.
/// Hendrycks, Gimpel: Gaussian error linear units (2016).
Tensor gelu(const Tensor& x, GeluApproximation approximation = GeluApproximation::kNone);
/// x sigmoid(x)
Tensor silu(const Tensor& x);
/// x tanh(log(1 + exp(x))). Misra: Mish (2019).
Tensor mish(const Tensor& x);
/// x / (1 + |x|)
Tensor softsign(const Tensor& x);
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
/// x for positive x, else weight x. weight: one number, or one for each channel of x [N, C, ...].
/// He et al.: Delving deep into rectifiers (ICCV 2015).
Tensor prelu(const Tensor& x, const Tensor& weight);
/// The first half of `axis` times sigmoid of the second: [..., 2n, ...] gives [..., n, ...].
/// Dauphin et al.: Language modeling with gated convolutional networks (ICML 2017).
Tensor glu(const Tensor& x, int64_t axis = -1);

}  // namespace wick
