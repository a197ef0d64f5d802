#pragma once

#include "wick/core/tensor.h"

// Activation functions of each element, of any shape; but for glu, the result has x's shape and
// dtype. Integers become float32, but for relu, hardtanh and threshold. sigmoid and tanh are in
// elementwise.h.

namespace wick {

class Generator;

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
/// 1.0507 times elu with alpha 1.6733, so that means of 0 and variances of 1 are kept. Klambauer et
/// al.: Self-normalizing neural networks (2017).
Tensor selu(const Tensor& x);
/// max(x, 0) + min(alpha (exp(x / alpha) - 1), 0). Error for alpha 0.
Tensor celu(const Tensor& x, double alpha = 1);
/// log(sigmoid(x)) without overflow.
Tensor logsigmoid(const Tensor& x);
/// min(max(x, low), high), whose gradient is 0 at the bounds. Error unless low <= high.
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
/// x, but 0 within [-lambd, lambd].
Tensor hardshrink(const Tensor& x, double lambd = 0.5);
/// x brought towards 0 by lambd, 0 within [-lambd, lambd]. Error for a lambd below 0.
Tensor softshrink(const Tensor& x, double lambd = 0.5);
/// x - tanh(x)
Tensor tanhshrink(const Tensor& x);
/// x where it is above `threshold`, else `value`.
Tensor threshold(const Tensor& x, Scalar threshold, Scalar value);
/// leaky_relu with a slope drawn from [lower, upper) for each negative element in training, else
/// with their mean. Error unless lower <= upper. Xu et al.: Empirical evaluation of rectified
/// activations (2015).
Tensor rrelu(const Tensor& x, double lower = 1.0 / 8, double upper = 1.0 / 3, bool training = false,
             Generator* generator = nullptr);
/// x for positive x, else weight x. weight: one number, or one for each channel of x [N, C, ...].
/// He et al.: Delving deep into rectifiers (ICCV 2015).
Tensor prelu(const Tensor& x, const Tensor& weight);
/// The first half of `axis` times sigmoid of the second: [..., 2n, ...] gives [..., n, ...].
/// Dauphin et al.: Language modeling with gated convolutional networks (ICML 2017).
Tensor glu(const Tensor& x, int64_t axis = -1);

}  // namespace wick
