#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// Where element `o` of a resized axis comes from: nearest: o * scale, rounded down; linear:
/// between the two elements around (o + 1/2) * scale - 1/2, or around o * scale with align_corners.
struct Interpolate2dParams {
  double scale[2] = {1, 1};
  bool linear = false;
  bool align_corners = false;
};

// x, dx: [N, C, H, W], y, dy: [N, C, P, Q], dense, channels-last, not empty, of one floating dtype.
WICK_KERNEL(interpolate2d_forward,
            (const View& x, const View& y, const Interpolate2dParams& params));
WICK_KERNEL(interpolate2d_backward,
            (const View& dy, const View& dx, const Interpolate2dParams& params));

}  // namespace wick
