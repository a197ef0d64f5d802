#pragma once

#include "wick/core/ops/sort.h"
#include "wick/kernels/pool.h"

// The poolings of images that those of signals and volumes are made of.
namespace wick {

/// The attributes that poolings and their gradients share, an entry for each axis of the image.
struct PoolWindows {
  Shape kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  bool ceil_mode = false;
  bool count_include_pad = true;
  bool adaptive = false;
  int64_t divisor = 0;  // of averages: instead of the window's size, if not 0
  Shape size;           // height and width of the result of an adaptive pooling

  Pool2dParams params() const {
    return {{kernel[0], kernel[1]},
            {stride[0], stride[1]},
            {padding[0], padding[1]},
            {dilation[0], dilation[1]},
            count_include_pad,
            divisor,
            adaptive};
  }
  /// Elements from the first to the last of a window.
  int64_t reach(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
  /// How many windows an axis of `in` elements has.
  int64_t output_size(int axis, int64_t in) const {
    if (adaptive) return size[axis];
    const int64_t rest = in + 2 * padding[axis] - reach(axis);
    if (!ceil_mode) return rest / stride[axis] + 1;
    const int64_t out = (rest + stride[axis] - 1) / stride[axis] + 1;
    // Windows start in the image or before it.
    return (out - 1) * stride[axis] >= in + padding[axis] ? out - 1 : out;
  }
  Shape output_shape(const Shape& x) const {
    return {x[0], x[1], output_size(0, x[2]), output_size(1, x[3])};
  }
};

/// Of images [N, C, H, W], floating, not empty, whose windows were checked.
Tensor max_pool_images(const Tensor& x, const PoolWindows& windows);
Sorted max_pool_images_with_indices(const Tensor& x, const PoolWindows& windows);
Tensor avg_pool_images(const Tensor& x, const PoolWindows& windows);

}  // namespace wick
