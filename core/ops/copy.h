#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// `x` converted to `dtype`; x itself if it has that dtype. Rounds to nearest for floating dtypes
/// and towards zero for integers, which wrap; to bool: "is not 0". Differentiable between floating
/// dtypes. The same as x.to(dtype).
Tensor cast(const Tensor& x, Dtype dtype);

}  // namespace wick
