#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// How operations on images (N, C, H, W) lay out their results, on every device.
inline constexpr MemoryFormat kImageFormat = MemoryFormat::kChannelsLast;

/// `values` for the `axes` axes of a signal, an image or a volume: one entry counts for all. Error
/// if there are others, or one is less than `least` or above 2^31 - 1, so that sums of them and of
/// sizes fit 63 bits.
inline Shape image_sizes(const char* op, const char* what, const Shape& values, int64_t least,
                         int axes) {
  WICK_CHECK(values.rank() == 1 || values.rank() == axes, op, ": ", what, " needs ",
             axes > 1 ? concat("1 or ", axes, " entries") : "1 entry", ": got ", values);
  const Shape sizes = values.rank() == axes ? values : Shape::filled(axes, values[0]);
  for (const int64_t value : sizes) {
    WICK_CHECK(value >= least, op, ": ", what, " must be at least ", least, ": got ", values);
    WICK_CHECK(value <= INT32_MAX, op, ": ", what, " must be at most ", INT32_MAX, ": got ",
               values);
  }
  return sizes;
}
/// The same for the two axes of an image.
inline Shape image_pair(const char* op, const char* what, const Shape& values, int64_t least) {
  return image_sizes(op, what, values, least, 2);
}

}  // namespace wick
