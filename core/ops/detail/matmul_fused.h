#pragma once

#include "wick/core/tensor.h"

// Products and what follows them, as graphs have them: without gradients. The bits are those of the
// separate ops on the CPU in float32. Elsewhere results may be rounded once less.
namespace wick {

/// matmul(a, b) * scale of floating tensors of 2 axes or more. Error unless `scale` is finite.
Tensor matmul_scaled(const Tensor& a, const Tensor& b, double scale);
/// linear(x, weight, bias) + residual, of the result's shape. `bias` may be undefined.
Tensor linear_sum(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& residual);

}  // namespace wick
