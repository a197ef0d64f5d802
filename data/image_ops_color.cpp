#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "wick/core/base/check.h"
#include "wick/data/image_ops.h"

namespace wick::data {

namespace {

void check_channels(const char* op, const Image& image) {
  WICK_CHECK(image.channels == 1 || image.channels == 3, op, ": wrong number of channels: got ",
             image.channels, ", expected 1 or 3");
}

void check_factor(const char* op, double factor) {
  WICK_CHECK(factor >= 0 && std::isfinite(factor), op, ": wrong factor: got ", factor,
             ", expected 0 or more");
}

// What a float becomes as a byte: cut to 0 to 255 and rounded down.
uint8_t as_byte(float x) {
  return static_cast<uint8_t>(static_cast<int>(std::min(std::max(x, 0.0f), 255.0f)));
}

// The result for each byte.
using Table = std::array<uint8_t, 256>;

template <class Function>
Table table_of(const Function& function) {
  Table table;
  for (int value = 0; value < 256; ++value) {
    table[static_cast<size_t>(value)] = function(static_cast<float>(value));
  }
  return table;
}

void look_up(const Table& table, Image& image) {
  for (uint8_t& byte : image.pixels) byte = table[byte];
}

// One table per channel.
void look_up(const std::array<Table, 3>& tables, Image& image) {
  if (image.channels == 1) return look_up(tables[0], image);
  uint8_t* const end = image.pixels.data() + image.pixels.size();
  for (uint8_t* pixel = image.pixels.data(); pixel != end; pixel += 3) {
    for (size_t c = 0; c < 3; ++c) pixel[c] = tables[c][pixel[c]];
  }
}

constexpr size_t kChunk = 256;  // pixels that are taken apart at once

// Some pixels of three channels, apart, so that the compiler can compute several at once.
struct Chunk {
  size_t count;
  float r[kChunk], g[kChunk], b[kChunk];
};

// The chunks of an image of three channels.
template <class Body>
void for_each_chunk(const Image& image, const Body& body) {
  const size_t pixels = image.pixels.size() / 3;
  Chunk chunk;
  for (size_t begin = 0; begin < pixels; begin += kChunk) {
    chunk.count = std::min(kChunk, pixels - begin);
    const uint8_t* from = image.pixels.data() + 3 * begin;
    for (size_t i = 0; i < chunk.count; ++i) {
      chunk.r[i] = from[3 * i];
      chunk.g[i] = from[3 * i + 1];
      chunk.b[i] = from[3 * i + 2];
    }
    body(chunk, 3 * begin);
  }
}

// Changes an image of three channels chunk by chunk; results are cut to bytes.
template <class Body>
void change_chunks(Image& image, const Body& body) {
  for_each_chunk(image, [&](Chunk& chunk, size_t begin) {
    body(chunk);
    uint8_t* to = image.pixels.data() + begin;
    for (size_t i = 0; i < chunk.count; ++i) {
      to[3 * i] = static_cast<uint8_t>(static_cast<int>(chunk.r[i]));
      to[3 * i + 1] = static_cast<uint8_t>(static_cast<int>(chunk.g[i]));
      to[3 * i + 2] = static_cast<uint8_t>(static_cast<int>(chunk.b[i]));
    }
  });
}

// A pixel's brightness as a whole number.
int grey_of(float r, float g, float b) {
  return static_cast<int>(0.2989f * r + 0.587f * g + 0.114f * b);
}

float cut(float x) { return std::min(std::max(x, 0.0f), 255.0f); }

}  // namespace

void adjust_brightness(Image& image, double factor) {
  check_channels("adjust brightness", image);
  check_factor("adjust brightness", factor);
  const auto f = static_cast<float>(factor);
  look_up(table_of([&](float x) { return as_byte(f * x); }), image);
}

void adjust_contrast(Image& image, double factor) {
  check_channels("adjust contrast", image);
  check_factor("adjust contrast", factor);
  int64_t sum = 0;
  if (image.channels == 3) {
    for_each_chunk(image, [&](const Chunk& chunk, size_t) {
      int part = 0;
      for (size_t i = 0; i < chunk.count; ++i) {
        part += grey_of(chunk.r[i], chunk.g[i], chunk.b[i]);
      }
      sum += part;
    });
  } else {
    for (const uint8_t byte : image.pixels) sum += byte;
  }
  const auto pixels = static_cast<double>(image.height * image.width);
  const auto f = static_cast<float>(factor);
  const float rest =
      static_cast<float>(1 - factor) * static_cast<float>(static_cast<double>(sum) / pixels);
  look_up(table_of([&](float x) { return as_byte(f * x + rest); }), image);
}

void adjust_saturation(Image& image, double factor) {
  check_channels("adjust saturation", image);
  check_factor("adjust saturation", factor);
  if (image.channels == 1) return;
  const auto f = static_cast<float>(factor), rest = static_cast<float>(1 - factor);
  change_chunks(image, [&](Chunk& chunk) {
    for (size_t i = 0; i < chunk.count; ++i) {
      const float r = chunk.r[i], g = chunk.g[i], b = chunk.b[i];
      const float grey = rest * static_cast<float>(grey_of(r, g, b));
      chunk.r[i] = cut(f * r + grey);
      chunk.g[i] = cut(f * g + grey);
      chunk.b[i] = cut(f * b + grey);
    }
  });
}

void adjust_hue(Image& image, double turn) {
  check_channels("adjust hue", image);
  WICK_CHECK(turn >= -0.5 && turn <= 0.5, "adjust hue: wrong turn: got ", turn,
             ", expected -0.5 to 0.5");
  if (image.channels == 1) return;
  const auto sixths = static_cast<float>(6 * turn);
  // Smith: Color gamut transform pairs (1978): the hue h, in sixths of a turn, says how far each
  // channel is from the largest: a trapezoid of h, of the height of the largest less the least.
  change_chunks(image, [&](Chunk& chunk) {
    for (size_t i = 0; i < chunk.count; ++i) {
      const float r = chunk.r[i], g = chunk.g[i], b = chunk.b[i];
      const float most = std::max(r, std::max(g, b));
      const float range = most - std::min(r, std::min(g, b));
      const float gb = g - b, br = b - r, rg = r - g;
      const float slope = most == r ? gb : most == g ? br : rg;
      const float start = most == r ? 0.0f : most == g ? 2.0f : 4.0f;
      float h = start + sixths + slope / std::max(range, 1.0f);
      h = h < 0 ? h + 6 : h;
      h = h >= 6 ? h - 6 : h;
      const auto channel = [&](float offset) {
        float k = h + offset;
        k = k >= 6 ? k - 6 : k;
        const float below = std::max(std::min(std::min(k, 4 - k), 1.0f), 0.0f);
        return cut((most - range * below) * (255.999f / 255));
      };
      chunk.r[i] = channel(5);
      chunk.g[i] = channel(3);
      chunk.b[i] = channel(1);
    }
  });
}

void adjust_sharpness(Image& image, double factor) {
  check_channels("adjust sharpness", image);
  check_factor("adjust sharpness", factor);
  if (image.height <= 2 || image.width <= 2) return;
  thread_local std::vector<uint8_t> before;
  before = image.pixels;
  const int64_t channels = image.channels, line = image.width * channels;
  const auto f = static_cast<float>(factor), rest = static_cast<float>(1 - factor);
  for (int64_t y = 1; y < image.height - 1; ++y) {
    const uint8_t* middle = before.data() + y * line;
    const uint8_t *above = middle - line, *below = middle + line;
    uint8_t* to = image.pixels.data() + y * line;
    for (int64_t i = channels; i < line - channels; ++i) {
      const int64_t left = i - channels, right = i + channels;
      const int sum = above[left] + above[i] + above[right] + middle[left] + 5 * middle[i] +
                      middle[right] + below[left] + below[i] + below[right];
      const auto blurred = static_cast<float>((sum + 6) / 13);
      to[i] = as_byte(f * static_cast<float>(middle[i]) + rest * blurred);
    }
  }
}

void to_grayscale(Image& image) {
  check_channels("grayscale", image);
  if (image.channels == 1) return;
  change_chunks(image, [&](Chunk& chunk) {
    for (size_t i = 0; i < chunk.count; ++i) {
      const auto grey = static_cast<float>(grey_of(chunk.r[i], chunk.g[i], chunk.b[i]));
      chunk.r[i] = chunk.g[i] = chunk.b[i] = grey;
    }
  });
}

void posterize(Image& image, int bits) {
  WICK_CHECK(bits >= 0 && bits <= 8, "posterize: wrong number of bits: got ", bits,
             ", expected 0 to 8");
  const auto mask = static_cast<uint8_t>(0xff00 >> bits);
  for (uint8_t& byte : image.pixels) byte &= mask;
}

void solarize(Image& image, double threshold) {
  const auto least = static_cast<float>(threshold);
  look_up(table_of([&](float x) { return as_byte(x >= least ? 255 - x : x); }), image);
}

void autocontrast(Image& image) {
  check_channels("autocontrast", image);
  const auto channels = static_cast<size_t>(image.channels);
  std::array<uint8_t, 3> low = {255, 255, 255}, high = {0, 0, 0};
  for (size_t i = 0; i < image.pixels.size(); i += channels) {
    for (size_t c = 0; c < channels; ++c) {
      low[c] = std::min(low[c], image.pixels[i + c]);
      high[c] = std::max(high[c], image.pixels[i + c]);
    }
  }
  std::array<Table, 3> tables;
  for (size_t c = 0; c < channels; ++c) {
    const bool flat = low[c] >= high[c];
    const float least = flat ? 0.0f : static_cast<float>(low[c]);
    const float scale = flat ? 1.0f : 255.0f / static_cast<float>(high[c] - low[c]);
    tables[c] = table_of([&](float x) { return as_byte((x - least) * scale); });
  }
  look_up(tables, image);
}

void equalize(Image& image) {
  check_channels("equalize", image);
  const auto channels = static_cast<size_t>(image.channels);
  std::array<std::array<int64_t, 256>, 3> counts{};
  std::array<Table, 3> tables;
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = c; i < image.pixels.size(); i += channels) ++counts[c][image.pixels[i]];
    int64_t of_largest = 0;
    for (const int64_t count : counts[c]) of_largest = count > 0 ? count : of_largest;
    const int64_t step = (image.height * image.width - of_largest) / 255;
    int64_t below = 0;  // pixels of lesser values
    for (size_t value = 0; value < 256; ++value) {
      const int64_t place = step > 0 ? (below + step / 2) / step : static_cast<int64_t>(value);
      tables[c][value] = static_cast<uint8_t>(std::min<int64_t>(place, 255));
      below += counts[c][value];
    }
  }
  look_up(tables, image);
}

}  // namespace wick::data
