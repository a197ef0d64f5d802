#pragma once

#include <optional>

#include "wick/core/ops/sort.h"

namespace wick {

// Poolings of signals x: [N, C, L] (1d), images [N, C, H, W] (2d) and volumes [N, C, D, H, W] (3d),
// floating; without N in x there is none in the result. Where an argument has an entry per axis,
// one entry counts for all. Results are laid out channels-last.

/// The largest element of each window, NaN if there is one; integers too. Returns [N, C, P, Q] with
/// P = (H + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1, rounded down, or with
/// `ceil_mode` up, as long as the last window starts in the image or the padding before it. An
/// empty `stride` means `kernel_size`; `padding` (by -infinity) may be at most half of
/// `kernel_size`, and `dilation` at most the image's size.
Tensor max_pool1d(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, const Shape& dilation = 1, bool ceil_mode = false);
Tensor max_pool2d(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, const Shape& dilation = 1, bool ceil_mode = false);
Tensor max_pool3d(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, const Shape& dilation = 1, bool ceil_mode = false);

/// The same, and where each largest element is: int64, counted through the signal, image or volume
/// in row-major order; the first of equal ones. PyTorch's return_indices.
Sorted max_pool1d_with_indices(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                               const Shape& padding = 0, const Shape& dilation = 1,
                               bool ceil_mode = false);
Sorted max_pool2d_with_indices(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                               const Shape& padding = 0, const Shape& dilation = 1,
                               bool ceil_mode = false);
Sorted max_pool3d_with_indices(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                               const Shape& padding = 0, const Shape& dilation = 1,
                               bool ceil_mode = false);

/// Puts each element of x where `indices` (x's shape) say, among zeros: the reverse of max pooling.
/// The result is [N, C, output_size], by default the smallest that such a pooling makes x of;
/// `output_size` may have N and C too. Where an index comes twice, one of the elements is kept.
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride = {}, const Shape& padding = 0,
                    const Shape& output_size = {});
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride = {}, const Shape& padding = 0,
                    const Shape& output_size = {});
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride = {}, const Shape& padding = 0,
                    const Shape& output_size = {});

/// The mean of each window; sizes as for max pooling without dilation. `padding` is by zeros, which
/// count unless `count_include_pad` is false; what is beyond the padding never does. With
/// `divisor_override` sums are divided by that instead.
Tensor avg_pool1d(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, bool ceil_mode = false, bool count_include_pad = true);
Tensor avg_pool2d(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, bool ceil_mode = false, bool count_include_pad = true,
                  std::optional<int64_t> divisor_override = {});
Tensor avg_pool3d(const Tensor& x, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, bool ceil_mode = false, bool count_include_pad = true,
                  std::optional<int64_t> divisor_override = {});

/// (sum of x^norm_type)^(1 / norm_type) of each window, as PyTorch has it: NaN where the sum is
/// negative. Where the sum is 0, gradients are 0. An infinite type takes the largest |x|. Sizes as
/// for avg_pool without padding.
Tensor lp_pool1d(const Tensor& x, double norm_type, const Shape& kernel_size,
                 const Shape& stride = {}, bool ceil_mode = false);
Tensor lp_pool2d(const Tensor& x, double norm_type, const Shape& kernel_size,
                 const Shape& stride = {}, bool ceil_mode = false);
Tensor lp_pool3d(const Tensor& x, double norm_type, const Shape& kernel_size,
                 const Shape& stride = {}, bool ceil_mode = false);

/// Means, or largest elements, of windows that tile the image evenly, as many as `output_size`
/// says; returns [N, C, output_size]. {1, 1} is the mean of the whole image.
Tensor adaptive_avg_pool1d(const Tensor& x, const Shape& output_size);
Tensor adaptive_avg_pool2d(const Tensor& x, const Shape& output_size);
Tensor adaptive_avg_pool3d(const Tensor& x, const Shape& output_size);
Tensor adaptive_max_pool1d(const Tensor& x, const Shape& output_size);
Tensor adaptive_max_pool2d(const Tensor& x, const Shape& output_size);
Tensor adaptive_max_pool3d(const Tensor& x, const Shape& output_size);
/// The same with indices, as max_pool2d_with_indices.
Sorted adaptive_max_pool1d_with_indices(const Tensor& x, const Shape& output_size);
Sorted adaptive_max_pool2d_with_indices(const Tensor& x, const Shape& output_size);
Sorted adaptive_max_pool3d_with_indices(const Tensor& x, const Shape& output_size);

}  // namespace wick
