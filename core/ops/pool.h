#pragma once

#include "wick/core/tensor.h"

namespace wick {

// Poolings of images x: [N, C, H, W] or [C, H, W], floating; without N in x there is none in the
// result. Where an argument has an entry per axis of the image, one entry counts for both. Results
// are laid out channels-last.

/// The largest element of each window, NaN if there is one; returns [N, C, P, Q] with
/// P = (H + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1, rounded down, or with
/// `ceil_mode` up, as long as the last window starts in the image or the padding before it. An
/// empty `stride` means `kernel_size`; `padding` (by -infinity) may be at most half of
/// `kernel_size`, and `dilation` at most the image's size.
Tensor max_pool2d(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = {0, 0}, const Shape& dilation = {1, 1},
                  bool ceil_mode = false);

/// The mean of each window; sizes as for max_pool2d without dilation. `padding` is by zeros, which
/// count unless `count_include_pad` is false; what is beyond the padding never does.
Tensor avg_pool2d(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = {0, 0}, bool count_include_pad = true,
                  bool ceil_mode = false);

/// Means of windows that tile the image evenly, as many as `output_size` says; returns
/// [N, C, output_size]. {1, 1} is the mean of the whole image.
Tensor adaptive_avg_pool2d(const Tensor& x, const Shape& output_size);

}  // namespace wick
