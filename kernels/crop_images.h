#pragma once

#include "wick/core/base/macros.h"
#include "wick/kernels/declare.h"

namespace wick {

/// What an image's row of `placements` holds.
enum ImagePlacement : int {
  kPlaceTop,  // the window's upper left pixel, which may lie outside the image
  kPlaceLeft,
  kPlaceFlips,     // 1: left and right swapped, 2: top and bottom
  kPlaceEraseTop,  // the rectangle of the result that is erased
  kPlaceEraseLeft,
  kPlaceEraseHeight,
  kPlaceEraseWidth,
  kPlacements,
};

/// Where pixel `i` of a line of `window` pixels comes from: `begin` + i, or from the other end.
WICK_HOST_DEVICE int64_t placed(int64_t i, int64_t window, int64_t begin, bool flipped) {
  return begin + (flipped ? window - 1 - i : i);
}

/// Windows of uint8 images x [N, C, H, W] as images y [N, C, P, Q] of floats, halves or doubles,
/// all channels-last: y = x * coefficients[0][c] + coefficients[1][c], rounded once, with x = 0
/// outside of an image, and coefficients[2][c] where it is erased. placements: int32
/// [N, kPlacements]; coefficients: float32 [3, C]. Both dense.
WICK_KERNEL(crop_images,
            (const View& x, const View& placements, const View& coefficients, const View& y));

}  // namespace wick
