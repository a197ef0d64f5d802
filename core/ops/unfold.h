#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// Windows of `size` neighbours along `axis`, `step` apart, as a new last axis; a view.
Tensor unfold(const Tensor& x, int64_t axis, int64_t size, int64_t step);

/// Options of unfold() with a kernel, and of fold(), as torch.nn.Unfold. Entries are for height and
/// width, in this order.
struct UnfoldOptions {
  Shape dilation = {1}, padding = {0}, stride = {1};  // one entry counts for both axes
};

/// The windows that a convolution sees (im2col): [N, C, H, W] -> [N, C kh kw, L], without N too.
/// Error if no window fits.
Tensor unfold(const Tensor& x, const Shape& kernel, const UnfoldOptions& options = {});
/// The sum of such windows, each at its place in images of `size`: [N, C kh kw, L] -> [N, C, H, W].
Tensor fold(const Tensor& x, const Shape& size, const Shape& kernel,
            const UnfoldOptions& options = {});

}  // namespace wick
