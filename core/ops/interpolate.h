#pragma once

#include <array>

#include "wick/core/tensor.h"

namespace wick {

enum class Interpolation : uint8_t { kNearest, kBilinear };

/// Resizes images x: [N, C, H, W], floating, to [N, C, size]; one entry of `size` counts for both
/// axes. With `align_corners` (bilinear only) the corners' centres coincide, otherwise their outer
/// edges do. The result is laid out channels-last.
Tensor interpolate(const Tensor& x, const Shape& size, Interpolation mode = Interpolation::kNearest,
                   bool align_corners = false);

/// The same by a factor per axis: [N, C, H, W] to [N, C, H factors[0], W factors[1]], rounded down.
Tensor interpolate_by(const Tensor& x, const std::array<double, 2>& scale_factors,
                      Interpolation mode = Interpolation::kNearest, bool align_corners = false);
template <class Number>
requires std::is_arithmetic_v<Number>  // a template, so that {3} means a size
    Tensor interpolate(const Tensor& x, Number scale_factor,
                       Interpolation mode = Interpolation::kNearest, bool align_corners = false) {
  const auto factor = static_cast<double>(scale_factor);
  return interpolate_by(x, {factor, factor}, mode, align_corners);
}

}  // namespace wick
