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

// An axis: the input from `begin` on for `extent` becomes `output` pixels, of which `count` are
// wanted, from `first` on. The input has pixels 0 to `pixels` - 1.
struct Axis {
  double begin, extent;
  int64_t output, first, count, pixels;
};

// A triangle as wide as two input pixels, or as two output pixels where those are larger.
std::vector<Taps> triangle_taps(const Axis& axis) {
  // Counted from a whole pixel, so that weights are the same wherever that pixel is.
  const double base = std::floor(axis.begin), begin = axis.begin - base;
  const auto offset = static_cast<int64_t>(base);
  const int64_t lowest = std::max<int64_t>(0, -offset);
  const int64_t highest =
      std::min(axis.pixels - offset, static_cast<int64_t>(std::ceil(begin + axis.extent)));
  const double scale = axis.extent / static_cast<double>(axis.output);
  const double support = std::max(scale, 1.0);
  std::vector<Taps> all;
  for (int64_t i = axis.first; i < axis.first + axis.count; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max(lowest, static_cast<int64_t>(center - support + 0.5));
    const int64_t last = std::min(highest, static_cast<int64_t>(center + support + 0.5));
    WICK_CHECK(first < last, "resize: outside the image: pixel ", i, " of ", axis.output);
    std::vector<double> weights;
    double total = 0;
    for (int64_t j = first; j < last; ++j) {
      const double distance = (static_cast<double>(j) - center + 0.5) * (1.0 / support);
      weights.push_back(std::max(0.0, 1.0 - std::abs(distance)));
      total += weights.back();
    }
    Taps taps{first + offset, {}};
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
  const Box box{static_cast<double>(top), static_cast<double>(left),
                static_cast<double>(window.height), static_cast<double>(window.width)};
  resize(source, box, size, {0, 0, size}, out);
}

void resize(const Image& source, const Box& box, ImageSize size, const Rect& kept, Image& out) {
  const int64_t channels = source.channels, line = kept.size.width * channels;
  out.height = kept.size.height;
  out.width = kept.size.width;
  out.channels = channels;
  out.pixels.resize(static_cast<size_t>(out.height * line));
  if (out.pixels.empty()) return;
  const std::vector<Taps> across =
      triangle_taps({box.left, box.width, size.width, kept.left, kept.size.width, source.width});
  const std::vector<Taps> down =
      triangle_taps({box.top, box.height, size.height, kept.top, kept.size.height, source.height});

  // Across, for every row that is drawn on.
  const int64_t top = down.front().first;
  const int64_t bottom = down.back().first + static_cast<int64_t>(down.back().weights.size());
  std::vector<uint8_t> narrow(static_cast<size_t>((bottom - top) * line));
  for (int64_t y = top; y < bottom; ++y) {
    const uint8_t* row = source.pixels.data() + y * source.width * channels;
    uint8_t* to = narrow.data() + (y - top) * line;
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
  std::vector<int32_t> sums(static_cast<size_t>(line));
  for (int64_t y = 0; y < kept.size.height; ++y) {
    const Taps& taps = down[static_cast<size_t>(y)];
    std::fill(sums.begin(), sums.end(), kHalf);
    const uint8_t* from = narrow.data() + (taps.first - top) * line;
    for (const int32_t weight : taps.weights) {
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * from[i];
      from += line;
    }
    uint8_t* to = out.pixels.data() + y * line;
    for (size_t i = 0; i < sums.size(); ++i) to[i] = rounded(sums[i]);
  }
}

}  // namespace wick::data
