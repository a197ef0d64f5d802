#include "wick/core/ops/crop_images.h"

#include <gtest/gtest.h>

#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

// Images, where their windows are, and the numbers that normalise them.
Sample images(const Shape& shape, int64_t reach) {
  Input factors = normal({3, shape[1]}).constant();
  factors.dtype = kFloat32;
  return {index(shape, 0, 256, kUint8),
          index({shape[0], kCropImagesNumbers}, -reach, reach + 1, kInt32), factors};
}

Arrays cropped(const Arrays& in, int64_t height, int64_t width) {
  const Shape& shape = in[0].shape;
  HostArray y = filled({shape[0], shape[1], height, width});
  for_each_coordinate(y.shape, [&](const Shape& c) {
    const auto number = [&](int64_t i) { return static_cast<int64_t>(at(in[1], {c[0], i})); };
    const bool across = (number(2) & 1) != 0, down = (number(2) & 2) != 0;
    const int64_t row = number(0) + (down ? height - 1 - c[2] : c[2]);
    const int64_t column = number(1) + (across ? width - 1 - c[3] : c[3]);
    const bool inside = row >= 0 && row < shape[2] && column >= 0 && column < shape[3];
    const bool erased = c[2] >= number(3) && c[2] < number(3) + number(5) && c[3] >= number(4) &&
                        c[3] < number(4) + number(6);
    const double value = inside ? at(in[0], {c[0], c[1], row, column}) : 0;
    at(y, c) = erased ? at(in[2], {2, c[1]}) : value * at(in[2], {0, c[1]}) + at(in[2], {1, c[1]});
  });
  return {y};
}

WICK_OP_CASE(
    crop_images, .covers = {"crop_images"},
    .samples = {images({5, 3, 9, 8}, 4), images({4, 1, 7, 7}, 3), images({2, 2, 3, 5}, 5),
                images({0, 3, 4, 4}, 1), images({1, 5, 1, 1}, 2), images({9, 3, 40, 50}, 20)},
    .call = [](const Tensors& x) -> Tensors {
      return {crop_images(x[0], x[1], x[2], {6, 12})};
    },
    .reference = [](const Arrays& x) { return cropped(x, 6, 12); }, .dtypes = {kFloat32},
    .differentiable = false);

WICK_OP_CASE(
    crop_images_odd, .covers = {"crop_images"},
    .samples = {images({3, 3, 9, 8}, 4), images({4, 1, 7, 7}, 3), images({2, 4, 3, 5}, 5)},
    .call = [](const Tensors& x) -> Tensors {
      return {crop_images(x[0], x[1], x[2], {5, 7})};
    },
    .reference = [](const Arrays& x) { return cropped(x, 5, 7); }, .dtypes = {kFloat32},
    .differentiable = false);

TEST(CropImages, RoundsToEveryDtypeOnce) {
  const Arrays arrays = make_inputs("crop_images", images({3, 3, 6, 9}, 3));
  for (const Device device : devices()) {
    const Tensor x = make_tensor(arrays[0], kUint8).to(device);
    const Tensor places = make_tensor(arrays[1], kInt32).to(device);
    const Tensor factors = make_tensor(arrays[2], kFloat32).to(device);
    for (const int64_t width : {7, 8}) {
      const Tensor exact = crop_images(x, places, factors, {6, width});
      EXPECT_TRUE(exact.is_contiguous(MemoryFormat::kChannelsLast));
      for (const Dtype dtype : {kFloat64, kFloat16, kBFloat16}) {
        const Tensor y = crop_images(x, places, factors, {6, width}, dtype);
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_TRUE(y.eq(exact.to(dtype)).all().item<bool>()) << to_string(dtype);
      }
    }
  }
}

TEST(CropImages, WrongArgumentsAreErrors) {
  const Tensor x = zeros({2, 3, 4, 4}, kUint8), places = zeros({2, 7}, kInt32);
  const Tensor factors = zeros({3, 3});
  EXPECT_EQ(
      error_of([&] {
        crop_images(zeros({2, 3, 4, 4}), places, factors, {4});
      }),
      "crop_images: wrong images: got shape [2, 3, 4, 4] of float32, expected uint8 [N, C, H, "
      "W]");
  EXPECT_EQ(error_of([&] {
              crop_images(x, zeros({1, 7}, kInt32), factors, {4});
            }),
            "crop_images: wrong placements: got shape [1, 7] of int32, expected int32 [2, 7]");
  EXPECT_EQ(
      error_of([&] {
        crop_images(x, places, zeros({3, 2}), {4});
      }),
      "crop_images: wrong coefficients: got shape [3, 2] of float32, expected float32 [3, 3]");
  EXPECT_EQ(error_of([&] { crop_images(x, places, factors, {4}, kInt32); }),
            "crop_images: needs a floating dtype: got int32");
}

}  // namespace
}  // namespace wick::testing
