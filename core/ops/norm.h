#pragma once

#include <optional>

#include "wick/core/tensor.h"

// Normalisations. Statistics are accumulated in blocks and joined in double; weights and biases may
// be undefined (1 and 0) and keep their own dtype, so that x may be narrower than they are.
namespace wick {

/// Statistics of batch norm that outlive a call.
struct BatchNormOptions {
  bool training = true;   // normalise with the batch's statistics and update the running ones
  double momentum = 0.1;  // weight of the new batch in the running statistics
  double eps = 1e-5;      // added to the variance
};

/// (x - mean) / sqrt(var + eps) * weight + bias per channel; x: [N, C] or [N, C, ...], floating. In
/// training the mean and the biased variance are the batch's, and running_mean and running_var
/// (floating [C], unbiased variance), where defined, are updated in place; else they are used.
/// An empty batch leaves them; one value per channel is an error in training. Ioffe, Szegedy: Batch
/// normalization (ICML 2015).
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {});
/// relu(batch_norm(x)) in one pass; backward keeps one bit per element.
Tensor batch_norm_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var,
                       const BatchNormOptions& options = {});
/// relu(batch_norm(x) + residual) in one pass; residual has x's shape and dtype.
Tensor batch_norm_add_relu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                           const Tensor& bias, const Tensor& running_mean,
                           const Tensor& running_var, const BatchNormOptions& options = {});

/// Normalises over the last axes, whose sizes are `normalized_shape`, as are weight's and bias's.
/// Ba, Kiros, Hinton: Layer normalization (2016).
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

/// A sum, and what a normalisation makes of it.
struct SumAndNorm {
  Tensor sum;
  Tensor y;
};

/// x + residual, of one shape, and the layer norm of that, in one pass; so is backward, with the
/// gradients of both. What residual streams want: the sum goes on, the norm enters the next block.
SumAndNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                          const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

/// x / sqrt(mean(x^2) + eps) * weight over the last axes, whose sizes are `normalized_shape`. `eps`
/// defaults to the distance from 1 to the next number of x's dtype.
/// Zhang, Sennrich: Root mean square layer normalization (2019).
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});

/// x + residual, of one shape, and the RMS norm of that, in one pass.
SumAndNorm add_rms_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                        const Tensor& weight = {}, std::optional<double> eps = {});

/// Normalises the channels of each image in `groups` groups; x: [N, C, ...], weight, bias: [C].
/// Wu, He: Group normalization (ECCV 2018).
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);
/// relu(group_norm(x)) in one pass; backward keeps one bit per element.
Tensor group_norm_relu(const Tensor& x, int64_t groups, const Tensor& weight = {},
                       const Tensor& bias = {}, double eps = 1e-5);
/// relu(group_norm(x) + residual) in one pass; residual has x's shape and dtype.
Tensor group_norm_add_relu(const Tensor& x, const Tensor& residual, int64_t groups,
                           const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5);

/// x [N, C, ...] over (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta.
/// Krizhevsky et al.: ImageNet classification with deep convolutional neural networks (2012).
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                           double k = 1);

}  // namespace wick
