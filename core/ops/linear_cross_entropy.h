#pragma once

#include "wick/core/ops/loss.h"

namespace wick {

/// cross_entropy(linear(x, linear_weight, linear_bias), target, options), the loss of a
/// classifier's last layer: x [N, K] or [K], linear_weight [C, K], linear_bias [C] or undefined.
/// For targets that are class indices backward writes the gradient of the logits over them
/// (options.in_place). In 16 bits layer and loss are computed in float32 and rounded once; under
/// autocast the layer is of the lower precision. Error unless dtypes of x and the layer are equal.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& linear_weight, const Tensor& target,
                            const Tensor& linear_bias = {},
                            const CrossEntropyOptions& options = {});

}  // namespace wick
