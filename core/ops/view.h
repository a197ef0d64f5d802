#pragma once

#include <vector>

#include "wick/core/tensor.h"

// Views share the memory of the tensor they are made from and allocate nothing. Most are members of
// Tensor: reshape, permute, expand, ...

namespace wick {

/// Axis `axis` cut into axes of `sizes`, one of which may be -1: [N, 6] -> [N, 2, 3]. Error unless
/// their product is the axis' size.
Tensor unflatten(const Tensor& x, int64_t axis, const Shape& sizes);

/// The axes `from` moved to the places `to`, the others in order around them.
Tensor movedim(const Tensor& x, const Shape& from, const Shape& to);

/// [..., C r^2, H, W] -> [..., C, H r, W r]: each pixel's channels become r x r pixels, a copy.
/// Shi et al.: Real-time single image super-resolution (CVPR 2016).
Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor);
/// The inverse: [..., C, H r, W r] -> [..., C r^2, H, W].
Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor);

/// [N, C, ...] with the C channels, `groups` groups of them, dealt out again: the first of each
/// group, the second of each, ... Zhang et al.: ShuffleNet (2017).
Tensor channel_shuffle(const Tensor& x, int64_t groups);

/// Each of the vectors along an axis of its own, repeated along those of the others, as views:
/// [M] and [N] -> [M, N] each. PyTorch's indexing "ij".
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors);

namespace detail {
/// The memory of `x` from element `offset` on, walked as `shape` by `strides`: what the forward of
/// a view op returns.
Tensor make_view(const Tensor& x, int64_t offset, const Shape& shape, const Strides& strides);
}  // namespace detail

}  // namespace wick
