#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// How an element of a resized axis is made of those of the axis.
enum class ResizeRule : uint8_t { kNearest, kNearestExact, kLinear, kCubic };

/// Where element `o` of a resized axis comes from: nearest: o * scale, rounded down; exactly
/// nearest: (o + 1/2) * scale, rounded down; linear: between the two elements around
/// (o + 1/2) * scale - 1/2, or around o * scale with align_corners; cubic: among the four around
/// the same place.
struct Interpolate2dParams {
  double scale[2] = {1, 1};
  ResizeRule rule = ResizeRule::kNearest;
  bool align_corners = false;
};

// x, dx: [N, C, H, W], y, dy: [N, C, P, Q], dense, channels-last, not empty, of one floating dtype.
WICK_KERNEL(interpolate2d_forward,
            (const View& x, const View& y, const Interpolate2dParams& params));
WICK_KERNEL(interpolate2d_backward,
            (const View& dy, const View& dx, const Interpolate2dParams& params));

}  // namespace wick
