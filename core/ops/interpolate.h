#pragma once

#include <vector>

#include "wick/core/tensor.h"

namespace wick {

/// How what lies between elements is found. One axis takes kLinear, two take kBilinear and
/// kBicubic, three kTrilinear; the others are for any.
enum class Interpolation : uint8_t {
  kNearest,  // the element whose edge is nearest before it
  kLinear,
  kBilinear,
  kBicubic,
  kTrilinear,
  kArea,          // adaptive_avg_pool1d, 2d or 3d
  kNearestExact,  // the element whose centre is nearest, as other libraries have it
};

/// Resizes signals [N, C, L], images [N, C, H, W] or volumes [N, C, D, H, W], floating, to
/// [N, C, size]; one entry of `size` counts for all axes. With `align_corners` (linear and cubic
/// modes only) the corners' centres coincide, otherwise their outer edges do. With `antialias`
/// (bilinear and bicubic) what is made smaller is averaged over all that it stands for. Images
/// come out channels-last.
Tensor interpolate(const Tensor& x, const Shape& size, Interpolation mode = Interpolation::kNearest,
                   bool align_corners = false, bool antialias = false);

/// The same by a factor for each axis, or one for all: the sizes times the factors, rounded down.
/// With `recompute_scale_factor` that size alone counts, and not the factors themselves, which
/// differ where sizes were rounded.
Tensor interpolate_by(const Tensor& x, const std::vector<double>& scale_factors,
                      Interpolation mode = Interpolation::kNearest, bool align_corners = false,
                      bool recompute_scale_factor = false, bool antialias = false);
template <class Number>
requires std::is_arithmetic_v<Number>  // a template, so that {3} means a size
    Tensor interpolate(const Tensor& x, Number scale_factor,
                       Interpolation mode = Interpolation::kNearest, bool align_corners = false,
                       bool antialias = false) {
  static_cast<void>(x.rank("interpolate"));  // whose error would name the other
  return interpolate_by(x, {static_cast<double>(scale_factor)}, mode, align_corners, false,
                        antialias);
}

}  // namespace wick
