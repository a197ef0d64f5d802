#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// How operations on images (N, C, H, W) lay out their results, on every device.
inline constexpr MemoryFormat kImageFormat = MemoryFormat::kChannelsLast;

/// `values` for the two axes of an image: one entry counts for both. Error if there are more, or
/// one is less than `least` or above 2^31 - 1, so that sums of them and of sizes fit 63 bits.
inline Shape image_pair(const char* op, const char* what, const Shape& values, int64_t least) {
  WICK_CHECK(values.rank() == 1 || values.rank() == 2, op, ": ", what,
             " needs 1 or 2 entries: got ", values);
  const Shape pair{values[0], values.back()};
  for (const int64_t value : pair) {
    WICK_CHECK(value >= least, op, ": ", what, " must be at least ", least, ": got ", values);
    WICK_CHECK(value <= INT32_MAX, op, ": ", what, " must be at most ", INT32_MAX, ": got ",
               values);
  }
  return pair;
}

}  // namespace wick
