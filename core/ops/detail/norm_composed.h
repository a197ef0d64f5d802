#pragma once

#include "wick/core/tensor.h"

// The normalisations made of other ops: what second derivatives are taken of, and what the tests
// compare the fused kernels with. weight and bias may be undefined.
namespace wick {

/// In training: with the batch's statistics.
Tensor composed_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
Tensor composed_batch_norm_eval(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                const Tensor& mean, const Tensor& invstd);
/// Over the last `axes` axes.
Tensor composed_layer_norm(const Tensor& x, int axes, const Tensor& weight, const Tensor& bias,
                           double eps);
Tensor composed_rms_norm(const Tensor& x, int axes, const Tensor& weight, double eps);
Tensor composed_group_norm(const Tensor& x, int64_t groups, const Tensor& weight,
                           const Tensor& bias, double eps);

}  // namespace wick
