// Batches of bytes cropped, flipped, erased in part and normalised in one pass.
#include "wick/core/ops/crop_images.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"

namespace wick::bench::crop_images_rows {
namespace {

// Windows at (2, 1), not flipped.
Tensor placements(int64_t count) {
  const Tensor rows = zeros({count, kCropImagesNumbers}, kInt32);
  rows.select(1, 0).fill_(2);
  rows.select(1, 1).fill_(1);
  return rows;
}

bool add_crop(const char* name, int64_t count, int64_t side, int64_t window) {
  return add_op(
      {.name = concat("crop_images/", name),
       .inputs =
           [=](const Setting& s) {
             const int64_t n = s.some(count);
             const Tensor images = randint(0, 256, {n, 3, side, side}).to(kUint8);
             return Tensors{images.contiguous(MemoryFormat::kChannelsLast), placements(n),
                            randint(1, 4, {3, 3}).to(kFloat64)};
           },
       .call =
           [=](const Tensors& x) {
             return Tensors{crop_images(x[0], x[1], x[2].to(kFloat32), {window, window})};
           },
       .plain =
           [=](const Tensors& x) {
             const Tensor part = x[0].narrow(2, 2, window).narrow(3, 1, window).to(kFloat64);
             const auto line = [&](int i) { return x[2].select(0, i).reshape({3, 1, 1}); };
             return Tensors{part * line(0) + line(1)};
           },
       .backward = false,
       .dtypes = {kFloat32}});
}

[[maybe_unused]] const bool kCrops[] = {add_crop("512x32x32", 512, 36, 32),
                                        add_crop("32x224x224", 32, 256, 224)};

}  // namespace
}  // namespace wick::bench::crop_images_rows
