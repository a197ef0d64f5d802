#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// The covariances of variables, the rows of x [variables, observations], or the variance of the
/// vector x. `counts` (whole numbers) and `weights` (floating), if defined, are [observations]: how
/// often each was seen, and how much it counts. The sum is divided by the number of observations
/// less `correction`. Floating.
Tensor cov(const Tensor& x, int64_t correction = 1, const Tensor& counts = {},
           const Tensor& weights = {});
/// Pearson's coefficients of correlation of the same, within [-1, 1].
Tensor corrcoef(const Tensor& x);

}  // namespace wick
