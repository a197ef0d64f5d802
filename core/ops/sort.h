#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// Elements, and where along the axis they were (int64).
struct Sorted {
  Tensor values;
  Tensor indices;
};

/// `x` sorted along `axis`. Stable; NaN counts as greater than every number.
Sorted sort(const Tensor& x, int64_t axis = -1, bool descending = false);

/// The values of sort along axis 0.
Tensor msort(const Tensor& x);
/// The indices that sort `x` along `axis`.
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);

/// The k largest (or smallest) elements along `axis`, the best first; of equal ones the first
/// comes first. Error unless 0 <= k <= the axis' size.
Sorted topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);

/// The largest (smallest) element along `axis` and where the first one is, which gets all of the
/// gradient (amax shares it). NaN counts as largest and as smallest. Error for no elements.
Sorted max(const Tensor& x, int64_t axis, bool keepdim = false);
Sorted min(const Tensor& x, int64_t axis, bool keepdim = false);

/// Running sums along `axis`; of integers and bool as int64.
Tensor cumsum(const Tensor& x, int64_t axis);

/// Running products along `axis`; of integers and bool as int64.
Tensor cumprod(const Tensor& x, int64_t axis);

}  // namespace wick
