#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// Numbers that tell crop_images what to do with one image, in this order:
/// - the row and column of the window's upper left pixel in the image, which may lie outside;
/// - 1 to swap left and right, 2 top and bottom, 3 both;
/// - row, column, height and width of a rectangle of the result to erase.
inline constexpr int64_t kCropImagesNumbers = 7;

/// Windows of `size` (height and width) of a batch of images, flipped, erased in part, normalised
/// and converted in one pass. images: uint8 [N, C, H, W]; placements: int32 [N,
/// kCropImagesNumbers]; coefficients: float32 [3, C]; all on one device. Returns [N, C, size] of
/// the floating `dtype`, channels-last: image * coefficients[0] + coefficients[1], the image being
/// 0 outside of it, and coefficients[2] where it is erased. Takes no gradient.
Tensor crop_images(const Tensor& images, const Tensor& placements, const Tensor& coefficients,
                   const Shape& size, Dtype dtype = kFloat32);

}  // namespace wick
