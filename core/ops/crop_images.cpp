#include "wick/core/ops/crop_images.h"

#include "wick/core/apply.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/image_format.h"
#include "wick/kernels/crop_images.h"

namespace wick {

namespace {

static_assert(kCropImagesNumbers == kPlacements);

void check_inputs(const Tensor& images, const Tensor& placements, const Tensor& coefficients) {
  WICK_CHECK(images.rank() == 4 && images.dtype() == kUint8,
             "crop_images: wrong images: got shape ", images.shape(), " of ",
             to_string(images.dtype()), ", expected uint8 [N, C, H, W]");
  const Shape rows{images.size(0), kCropImagesNumbers}, factors{3, images.size(1)};
  WICK_CHECK(placements.shape() == rows && placements.dtype() == kInt32,
             "crop_images: wrong placements: got shape ", placements.shape(), " of ",
             to_string(placements.dtype()), ", expected int32 ", rows);
  WICK_CHECK(coefficients.shape() == factors && coefficients.dtype() == kFloat32,
             "crop_images: wrong coefficients: got shape ", coefficients.shape(), " of ",
             to_string(coefficients.dtype()), ", expected float32 ", factors);
}

struct CropImages {
  static constexpr OpInfo info{.name = "crop_images", .differentiable = false};
  Shape size;
  Dtype dtype = kFloat32;
  static constexpr auto fields =
      std::tuple{field("size", &CropImages::size), field("dtype", &CropImages::dtype)};

  Tensor forward(Saved&, const Tensor& images, const Tensor& placements,
                 const Tensor& coefficients) const {
    WICK_CHECK(size.rank() == 2 && is_floating(dtype), "crop_images: wrong size or dtype: got ",
               size, " and ", dtype, ", expected two numbers and a floating one");
    check_inputs(images, placements, coefficients);
    const int64_t n = images.size(0), channels = images.size(1);
    Tensor y = empty({n, channels, size[0], size[1]}, dtype, images.device(), kImageFormat);
    if (y.numel() == 0) return y;
    const Tensor x = images.contiguous(kImageFormat);
    const Tensor place = placements.contiguous(), factors = coefficients.contiguous();
    WICK_DISPATCH(images.device(), crop_images(x.view_for_kernel(), place.view_for_kernel(),
                                               factors.view_for_kernel(), y.view_for_kernel()));
    return y;
  }
};

}  // namespace

Tensor crop_images(const Tensor& images, const Tensor& placements, const Tensor& coefficients,
                   const Shape& size, Dtype dtype) {
  check_defined("crop_images", images, placements, coefficients);
  check_inputs(images, placements, coefficients);
  WICK_CHECK(is_floating(dtype), "crop_images: needs a floating dtype: got ", to_string(dtype));
  const Shape pair = image_pair("crop_images", "size", size, 0);
  WICK_CHECK(pair[1] * images.size(1) <= INT32_MAX, "crop_images: rows are too long: got ", pair[1],
             " pixels of ", images.size(1), " channels, expected at most ", INT32_MAX, " in all");
  return apply(CropImages{pair, dtype}, images, placements, coefficients);
}

}  // namespace wick
