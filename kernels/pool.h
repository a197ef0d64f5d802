#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// Windows of `kernel` elements, `dilation` apart, every `stride` over an image with `padding`, as
/// many as the result has elements: the last ones may end behind the padding. Adaptive windows
/// instead tile the image. Averages know no dilation.
struct Pool2dParams {
  int64_t kernel[2] = {1, 1};
  int64_t stride[2] = {1, 1};
  int64_t padding[2] = {0, 0};
  int64_t dilation[2] = {1, 1};
  bool count_include_pad = true;  // averages count the elements of the padding too
  int64_t divisor = 0;            // what averages divide all sums by, if not 0
  bool adaptive = false;
};

// x, dx, g: [N, C, H, W], y, dy: [N, C, P, Q], dense, channels-last, not empty, of one floating
// dtype. taps: y's shape and layout, uint8 or int32: where in its window r * S + s the maximum is.

WICK_KERNEL(max_pool2d_forward,
            (const View& x, const View& y, const View& taps, const Pool2dParams& params));
WICK_KERNEL(max_pool2d_backward,
            (const View& dy, const View& taps, const View& dx, const Pool2dParams& params));
// y = the elements of g where the maxima were.
WICK_KERNEL(max_pool2d_gather,
            (const View& g, const View& taps, const View& y, const Pool2dParams& params));
// indices = where the maxima of x were, in each of its channels: y * W + x. int64, y's layout.
WICK_KERNEL(max_pool2d_indices,
            (const View& x, const View& taps, const View& indices, const Pool2dParams& params));
WICK_KERNEL(avg_pool2d_forward, (const View& x, const View& y, const Pool2dParams& params));
WICK_KERNEL(avg_pool2d_backward, (const View& dy, const View& dx, const Pool2dParams& params));

}  // namespace wick
