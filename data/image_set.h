#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wick::data {

/// Labelled images of one size, held in memory: pixel (y, x, c) of image i is
/// `pixels[((i * height + y) * width + x) * channels + c]`.
struct ImageSet {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;  // each below class_names.size()
  std::vector<std::string> class_names;

  /// Number of images.
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  /// Bytes from one image to the next: height * width * channels.
  int64_t bytes_per_image() const { return height * width * channels; }
  /// The first byte of image `index`, 0 to size() - 1; it is not checked.
  const uint8_t* image(int64_t index) const { return pixels.data() + index * bytes_per_image(); }
};

/// Which part of a data set to read.
enum class Split { kTrain, kTest };

}  // namespace wick::data
