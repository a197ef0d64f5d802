#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// How the value between pixels is found.
enum class GridMode : uint8_t { kBilinear, kNearest };
/// What stands outside of the image.
enum class GridPadding : uint8_t { kZeros, kBorder, kReflection };

/// Images x [N, C, H, W] read at the places of `grid` [N, h, w, 2], pairs (x, y) from -1 to 1 from
/// edge to edge: [N, C, h, w]. With `align_corners` -1 and 1 are the centres of the outer pixels,
/// else the edges of the image. Differentiable by both. Jaderberg et al.: Spatial transformer
/// networks (2015).
Tensor grid_sample(const Tensor& x, const Tensor& grid, GridMode mode = GridMode::kBilinear,
                   GridPadding padding = GridPadding::kZeros, bool align_corners = false);

/// The places that matrices theta [N, 2, 3] send the pixels of images of `size` [N, C, H, W] to:
/// [N, H, W, 2], for grid_sample.
Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false);

}  // namespace wick
