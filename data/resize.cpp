#include <algorithm>
#include <cmath>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/data/transforms.h"

namespace wick::data {

namespace {

// Weights are integers of this many fractional bits, so that sums of bytes fit 32 bits and the
// result is the same on every machine.
constexpr int kWeightBits = 22;

// One output pixel along an axis: the first input pixel it draws on, and their weights.
struct Taps {
  int64_t first;
  std::vector<int32_t> weights;
};

// A triangle as wide as two input pixels, or as two output pixels where those are larger.
std::vector<Taps> triangle_taps(int64_t input, int64_t output) {
  const double scale = static_cast<double>(input) / static_cast<double>(output);
  const double support = std::max(scale, 1.0);
  std::vector<Taps> all;
  for (int64_t i = 0; i < output; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const int64_t last = std::min(input, static_cast<int64_t>(center + support + 0.5));
    std::vector<double> weights;
    double total = 0;
    for (int64_t j = first; j < last; ++j) {
      const double distance = (static_cast<double>(j) - center + 0.5) * (1.0 / support);
      weights.push_back(std::max(0.0, 1.0 - std::abs(distance)));
      total += weights.back();
    }
    Taps taps{first, {}};
    for (const double weight : weights) {
      const double scaled = weight / total * (1 << kWeightBits);
      taps.weights.push_back(static_cast<int32_t>(scaled + 0.5));
    }
    all.push_back(std::move(taps));
  }
  return all;
}

constexpr int32_t kHalf = 1 << (kWeightBits - 1);
uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

}  // namespace

void resize(const Image& source, int64_t top, int64_t left, ImageSize window, ImageSize size,
            Image& out) {
  WICK_CHECK(top >= 0 && left >= 0 && window.height > 0 && window.width > 0 &&
                 top + window.height <= source.height && left + window.width <= source.width,
             "resize: window outside the image: got ", window.height, " x ", window.width, " at ",
             top, ", ", left, " of ", source.height, " x ", source.width);
  const int64_t channels = source.channels, line = size.width * channels;
  out.height = size.height;
  out.width = size.width;
  out.channels = channels;
  out.pixels.resize(static_cast<size_t>(size.height * line));

  // Across, for every row of the window.
  std::vector<uint8_t> narrow(static_cast<size_t>(window.height * line));
  const std::vector<Taps> across = triangle_taps(window.width, size.width);
  for (int64_t y = 0; y < window.height; ++y) {
    const uint8_t* row = source.pixels.data() + ((top + y) * source.width + left) * channels;
    uint8_t* to = narrow.data() + y * line;
    for (const Taps& taps : across) {
      for (int64_t c = 0; c < channels; ++c) {
        const uint8_t* from = row + taps.first * channels + c;
        int32_t sum = kHalf;
        for (const int32_t weight : taps.weights) {
          sum += weight * *from;
          from += channels;
        }
        *to++ = rounded(sum);
      }
    }
  }

  // Down.
  const std::vector<Taps> down = triangle_taps(window.height, size.height);
  std::vector<int32_t> sums(static_cast<size_t>(line));
  for (int64_t y = 0; y < size.height; ++y) {
    const Taps& taps = down[static_cast<size_t>(y)];
    std::fill(sums.begin(), sums.end(), kHalf);
    const uint8_t* from = narrow.data() + taps.first * line;
    for (const int32_t weight : taps.weights) {
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * from[i];
      from += line;
    }
    uint8_t* to = out.pixels.data() + y * line;
    for (size_t i = 0; i < sums.size(); ++i) to[i] = rounded(sums[i]);
  }
}

}  // namespace wick::data
