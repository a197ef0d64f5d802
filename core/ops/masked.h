#pragma once

#include <optional>

#include "wick/core/tensor.h"

// Functions of those elements of x that a mask names, as torch.masked: `mask` (bool, true for what
// counts) broadcasts to x, and undefined counts everything. What is left out has no part in the
// result, and its gradient is 0. Axes, `keepdim` and dtypes are as in reduce.h.

namespace wick::masked {

/// Sum, and product, of what counts; 0 and 1 of nothing.
Tensor sum(const Tensor& x, const Tensor& mask, const Shape& axes = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Tensor& mask, const Shape& axes = {}, bool keepdim = false);
/// Arithmetic mean; NaN of nothing. Floating.
Tensor mean(const Tensor& x, const Tensor& mask, const Shape& axes = {}, bool keepdim = false);
/// Largest and smallest element; of nothing the least and the greatest number of the dtype.
Tensor amax(const Tensor& x, const Tensor& mask, const Shape& axes = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Tensor& mask, const Shape& axes = {}, bool keepdim = false);
/// Position of the first largest (smallest) element; int64.
Tensor argmax(const Tensor& x, const Tensor& mask, std::optional<int64_t> axis = {},
              bool keepdim = false);
Tensor argmin(const Tensor& x, const Tensor& mask, std::optional<int64_t> axis = {},
              bool keepdim = false);
/// wick::norm. Floating.
Tensor norm(const Tensor& x, const Tensor& mask, double ord = 2, const Shape& axes = {},
            bool keepdim = false);
/// Mean squared deviation over the number that counts less `correction`, but not less than 0, and
/// its square root. Floating.
Tensor var(const Tensor& x, const Tensor& mask, const Shape& axes = {}, double correction = 1,
           bool keepdim = false);
Tensor stddev(const Tensor& x, const Tensor& mask, const Shape& axes = {}, double correction = 1,
              bool keepdim = false);
/// wick::logsumexp; -infinity of nothing. Floating.
Tensor logsumexp(const Tensor& x, const Tensor& mask, const Shape& axes = {}, bool keepdim = false);
/// The middle element along `axis`; NaN of nothing. Floating, without NaN.
Tensor median(const Tensor& x, const Tensor& mask, int64_t axis, bool keepdim = false);

/// wick::softmax, softmin and log_softmax, where what is left out gets no share; NaN where nothing
/// counts. Floating.
Tensor softmax(const Tensor& x, const Tensor& mask, int64_t axis);
Tensor softmin(const Tensor& x, const Tensor& mask, int64_t axis);
Tensor log_softmax(const Tensor& x, const Tensor& mask, int64_t axis);
/// x over its norm along `axis`, or over eps where that is larger; 0 for what is left out.
Tensor normalize(const Tensor& x, const Tensor& mask, double ord, int64_t axis, double eps = 1e-12);
/// Running sums and products along `axis`, which what is left out does not change.
Tensor cumsum(const Tensor& x, const Tensor& mask, int64_t axis);
Tensor cumprod(const Tensor& x, const Tensor& mask, int64_t axis);
/// log(exp(x) + exp(y)), where what either mask leaves out counts as -infinity. Floating.
Tensor logaddexp(const Tensor& x, const Tensor& y, const Tensor& x_mask, const Tensor& y_mask);

}  // namespace wick::masked
