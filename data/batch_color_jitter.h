#pragma once

#include <array>
#include <cstdint>

#include "wick/core/tensor.h"
#include "wick/data/augment.h"

namespace wick::data {

/// ColorJitter of a batch of images at once, where they are: factors of its own for each image, the
/// order one for all. What is drawn depends on the seed, the epoch and the batch's number alone.
class BatchColorJitter {
 public:
  /// `part`: as BatchTransformOptions'.
  explicit BatchColorJitter(const ColorJitterOptions& options, uint64_t seed = 0, int64_t part = 0);

  /// The random numbers of one batch.
  struct Draw {
    std::array<size_t, 4> order;  // of brightness (0), contrast (1), saturation (2) and hue (3)
    Tensor factors;               // float32 [4, count, 1, 1, 1], in memory of the CPU
  };
  /// What apply() draws for a batch of `count` images, with the epoch and the number of the batch
  /// in it. A factor of a range that changes nothing is 0.
  Draw draw(int64_t count, int64_t epoch, int64_t batch) const;

  /// images: floating [N, 1 or 3, H, W], 0 to 1, not yet normalised. Returns such images on their
  /// device, which is not waited for; nothing is rounded to bytes.
  Tensor apply(const Tensor& images, int64_t epoch, int64_t batch) const;

 private:
  std::array<JitterRange, 4> ranges_;
  uint64_t seed_;
  int64_t part_;
};

}  // namespace wick::data
