#include <algorithm>
#include <cmath>
#include <utility>

#include "wick/core/base/check.h"
#include "wick/data/image_ops.h"

namespace wick::data {

namespace {

constexpr double kPi = 3.14159265358979323846;

// Places are whole numbers of 2^-32 pixels: the same on every machine, and exact in whole pixels.
constexpr int kPlaceBits = 32;

int64_t as_place(double x) {
  return std::llround(x * static_cast<double>(int64_t{1} << kPlaceBits));
}

// Memory for a result, kept per thread.
Image& other_image() {
  thread_local Image other;
  return other;
}

template <int64_t kChannels>
void copy_pixel(const uint8_t* from, uint8_t* to) {
  for (int64_t c = 0; c < kChannels; ++c) to[c] = from[c];
}

// The pixel that a place falls in.
template <int64_t kChannels>
void take_nearest(const Image& source, int64_t x, int64_t y, uint8_t fill, uint8_t* to) {
  const int64_t column = x >> kPlaceBits, row = y >> kPlaceBits;
  const bool inside = column >= 0 && column < source.width && row >= 0 && row < source.height;
  if (inside) {
    copy_pixel<kChannels>(source.pixels.data() + (row * source.width + column) * kChannels, to);
  } else {
    std::fill(to, to + kChannels, fill);
  }
}

// Between the four pixels whose centres are around a place.
template <int64_t kChannels>
void take_bilinear(const Image& source, int64_t x, int64_t y, uint8_t fill, uint8_t* to) {
  constexpr int64_t kHalf = int64_t{1} << (kPlaceBits - 1), kMask = 2 * kHalf - 1;
  constexpr float kUnit = 1.0f / static_cast<float>(2 * kHalf);
  const int64_t column = (x - kHalf) >> kPlaceBits, row = (y - kHalf) >> kPlaceBits;
  const float across = static_cast<float>((x - kHalf) & kMask) * kUnit;
  const float down = static_cast<float>((y - kHalf) & kMask) * kUnit;
  float sums[kChannels] = {};
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      const float weight = (i == 0 ? 1 - down : down) * (j == 0 ? 1 - across : across);
      const int64_t r = row + i, s = column + j;
      const bool inside = r >= 0 && r < source.height && s >= 0 && s < source.width;
      const int64_t at = inside ? (r * source.width + s) * kChannels : 0;
      for (int64_t c = 0; c < kChannels; ++c) {
        const uint8_t value = source.pixels[static_cast<size_t>(at + c)];
        sums[c] += weight * static_cast<float>(inside ? value : fill);
      }
    }
  }
  for (int64_t c = 0; c < kChannels; ++c) to[c] = static_cast<uint8_t>(sums[c] + 0.5f);
}

template <int64_t kChannels>
void move_pixels(const Image& source, const AffineMap& map, AffineSampling sampling, uint8_t fill,
                 Image& out) {
  const int64_t x_step = as_place(map.x_x), y_step = as_place(map.y_x);
  uint8_t* to = out.pixels.data();
  for (int64_t row = 0; row < source.height; ++row) {
    const double center = static_cast<double>(row) + 0.5;
    int64_t x = as_place(map.x_y * center + map.x_0 + 0.5 * map.x_x);
    int64_t y = as_place(map.y_y * center + map.y_0 + 0.5 * map.y_x);
    for (int64_t i = 0; i < source.width; ++i, to += kChannels, x += x_step, y += y_step) {
      if (sampling == AffineSampling::kNearest) {
        take_nearest<kChannels>(source, x, y, fill, to);
      } else {
        take_bilinear<kChannels>(source, x, y, fill, to);
      }
    }
  }
}

}  // namespace

void affine(Image& image, const AffineMap& map, AffineSampling sampling, uint8_t fill) {
  WICK_CHECK(image.channels == 1 || image.channels == 3, "affine: wrong number of channels: got ",
             image.channels, ", expected 1 or 3");
  constexpr double kMostSlope = 1 << 12, kMostOffset = 1 << 28;  // so that places fit 63 bits
  for (const double slope : {map.x_x, map.x_y, map.y_x, map.y_y}) {
    WICK_CHECK(std::abs(slope) <= kMostSlope, "affine: slope out of range: got ", slope,
               ", expected at most ", kMostSlope);
  }
  for (const double offset : {map.x_0, map.y_0}) {
    WICK_CHECK(std::abs(offset) <= kMostOffset, "affine: offset out of range: got ", offset,
               ", expected at most ", kMostOffset);
  }
  Image& out = other_image();
  out.height = image.height;
  out.width = image.width;
  out.channels = image.channels;
  out.pixels.resize(image.pixels.size());
  if (image.channels == 1) {
    move_pixels<1>(image, map, sampling, fill, out);
  } else {
    move_pixels<3>(image, map, sampling, fill, out);
  }
  std::swap(image, out);
}

void rotate(Image& image, double degrees, AffineSampling sampling, uint8_t fill) {
  const double angle = degrees * (kPi / 180), cosine = std::cos(angle), sine = std::sin(angle);
  const double x = static_cast<double>(image.width) / 2, y = static_cast<double>(image.height) / 2;
  affine(image, {cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y},
         sampling, fill);
}

void erase(Image& image, int64_t top, int64_t left, ImageSize size,
           const std::vector<uint8_t>& value) {
  const auto channels = static_cast<size_t>(image.channels);
  WICK_CHECK(value.size() == 1 || value.size() == channels, "erase: wrong number of values: got ",
             value.size(), ", expected 1 or one for each of ", channels, " channels");
  WICK_CHECK(top >= 0 && left >= 0 && size.height >= 0 && size.width >= 0 &&
                 top + size.height <= image.height && left + size.width <= image.width,
             "erase: rectangle outside the image: got ", size.height, " x ", size.width, " at ",
             top, ", ", left, " of ", image.height, " x ", image.width);
  if (size.height == 0 || size.width == 0) return;
  const int64_t line = size.width * image.channels;
  const auto row_at = [&](int64_t y) {
    return image.pixels.data() + ((top + y) * image.width + left) * image.channels;
  };
  uint8_t* const first = row_at(0);
  for (int64_t i = 0; i < line; ++i) {
    first[i] = value[value.size() == 1 ? 0 : static_cast<size_t>(i) % channels];
  }
  for (int64_t y = 1; y < size.height; ++y) std::copy(first, first + line, row_at(y));
}

}  // namespace wick::data
