#pragma once

#include <cstdint>

#include "wick/core/tensor.h"
#include "wick/data/augment.h"

namespace wick::data {

/// Options of BatchTransform. Its constructor throws Error for a value out of its range, a dtype
/// that is not floating, and an `erasing` with random bytes.
struct BatchTransformOptions {
  ImageSize size = {};  // of the window; 0 x 0: that of the images
  int64_t padding = 0;  // black pixels put around images first
  bool random = true;   // false: the window in the middle, neither flipped nor erased
  double horizontal_flip = 0, vertical_flip = 0;  // chances
  RandomErasingOptions erasing = {.p = 0};        // not with random bytes
  Dtype dtype = kFloat32;                         // of the result
  uint64_t seed = 0;
  int64_t part = 0;  // what images are of their batch, in parts of one size: others draw apart
};

/// RandomCrop, flips, RandomErasing and Normalize of a batch of uint8 images at once, where they
/// are: on a GPU one kernel, for which the host does not wait. What is drawn depends on the seed,
/// the epoch and the batch's number alone, and is the same on every device; so are the results.
class BatchTransform {
 public:
  BatchTransform(const Normalize& normalize, const BatchTransformOptions& options);

  /// What happens to each of `count` images of size `input`: int32 [count, kCropImagesNumbers], in
  /// memory of the CPU. Error if the window is larger than the images with their padding.
  Tensor placements(int64_t count, ImageSize input, int64_t epoch, int64_t batch) const;

  /// images: uint8 [N, C, H, W]. Returns [N, C, size], channels-last, on their device. What a
  /// Prefetcher's `prepare` may do.
  Tensor apply(const Tensor& images, int64_t epoch, int64_t batch) const;

 private:
  BatchTransformOptions options_;
  Tensor coefficients_;  // as crop_images takes them
};

}  // namespace wick::data
