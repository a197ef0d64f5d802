#pragma once

#include "wick/core/tensor.h"

namespace wick {

enum class Interpolation : uint8_t { kNearest, kBilinear };

/// Resizes images x: [N, C, H, W], floating, to [N, C, size]; one entry of `size` counts for both
/// axes. With `align_corners` (bilinear only) the corners' centres coincide, otherwise their outer
/// edges do. The result is laid out channels-last.
Tensor interpolate(const Tensor& x, const Shape& size, Interpolation mode = Interpolation::kNearest,
                   bool align_corners = false);

/// The same by a factor: [N, C, H, W] to [N, C, H factor, W factor], rounded down.
Tensor interpolate_by(const Tensor& x, double scale_factor,
                      Interpolation mode = Interpolation::kNearest, bool align_corners = false);
template <class Number>
requires std::is_arithmetic_v<Number>  // a template, so that {3} means a size
    Tensor interpolate(const Tensor& x, Number scale_factor,
                       Interpolation mode = Interpolation::kNearest, bool align_corners = false) {
  return interpolate_by(x, static_cast<double>(scale_factor), mode, align_corners);
}

}  // namespace wick
