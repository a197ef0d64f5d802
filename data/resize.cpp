#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/data/transforms.h"

namespace wick::data {

namespace {

// Weights are integers of this many fractional bits, so that sums of bytes fit 32 bits and the
// result is the same on every machine.
constexpr int kWeightBits = 22;

// Two neighbouring weights as multiplications of 16 bits take them: weight = high 2^11 + low.
constexpr int kLowBits = 11;
struct WeightPair {
  int32_t high = 0, low = 0;  // of the first in the lower half, of the second in the upper
};

int32_t packed(int32_t first, int32_t second) {
  return static_cast<int32_t>(static_cast<uint32_t>(second) << 16 |
                              (static_cast<uint32_t>(first) & 0xffff));
}

// For each output pixel along an axis, the input pixels it draws on.
struct Taps {
  struct Output {
    int64_t first, last;  // input pixels, the last not included
    size_t begin, pairs;  // their weights; of an odd number, 0 follows the last
  };
  std::vector<Output> outputs;
  std::vector<WeightPair> pairs;
};

// An axis: the input from `begin` on for `extent` becomes `output` pixels, of which `count` are
// wanted, from `first` on. The input has pixels 0 to `pixels` - 1.
struct Axis {
  double begin, extent;
  int64_t output, first, count, pixels;
};

// A triangle as wide as two input pixels, or as two output pixels where those are larger.
Taps triangle_taps(const Axis& axis) {
  // Counted from a whole pixel, so that weights are the same wherever that pixel is.
  const double base = std::floor(axis.begin), begin = axis.begin - base;
  const auto offset = static_cast<int64_t>(base);
  const int64_t lowest = std::max<int64_t>(0, -offset);
  const int64_t highest =
      std::min(axis.pixels - offset, static_cast<int64_t>(std::ceil(begin + axis.extent)));
  const double scale = axis.extent / static_cast<double>(axis.output);
  const double support = std::max(scale, 1.0);
  Taps taps;
  taps.outputs.reserve(static_cast<size_t>(axis.count));
  std::vector<double> triangle;
  std::vector<int32_t> weights;
  for (int64_t i = axis.first; i < axis.first + axis.count; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max(lowest, static_cast<int64_t>(center - support + 0.5));
    const int64_t last = std::min(highest, static_cast<int64_t>(center + support + 0.5));
    WICK_CHECK(first < last, "resize: outside the image: pixel ", i, " of ", axis.output);
    triangle.clear();
    weights.clear();
    double total = 0;
    for (int64_t j = first; j < last; ++j) {
      const double distance = (static_cast<double>(j) - center + 0.5) * (1.0 / support);
      triangle.push_back(std::max(0.0, 1.0 - std::abs(distance)));
      total += triangle.back();
    }
    for (const double weight : triangle) {
      const double scaled = weight / total * (1 << kWeightBits);
      weights.push_back(static_cast<int32_t>(scaled + 0.5));
    }
    if (weights.size() % 2 != 0) weights.push_back(0);
    taps.outputs.push_back({first + offset, last + offset, taps.pairs.size(), weights.size() / 2});
    for (size_t j = 0; j < weights.size(); j += 2) {
      constexpr int32_t kLow = (1 << kLowBits) - 1;
      taps.pairs.push_back({packed(weights[j] >> kLowBits, weights[j + 1] >> kLowBits),
                            packed(weights[j] & kLow, weights[j + 1] & kLow)});
    }
  }
  return taps;
}

// Eight sums of products, to be weighed, in two parts.
struct Sums {
  __m256i high = _mm256_setzero_si256(), low = _mm256_setzero_si256();

  // Adds the products of eight pairs of numbers of 16 bits with the pair of weights.
  void add(__m256i numbers, __m256i high_weights, __m256i low_weights) {
    high = _mm256_add_epi32(high, _mm256_madd_epi16(numbers, high_weights));
    low = _mm256_add_epi32(low, _mm256_madd_epi16(numbers, low_weights));
  }
  // The sums as bytes of 32 bits, rounded.
  __m256i rounded() const {
    const __m256i half = _mm256_set1_epi32(1 << (kWeightBits - 1));
    const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, kLowBits), low);
    return _mm256_srai_epi32(_mm256_add_epi32(sum, half), kWeightBits);
  }
};

// The same for one number.
int32_t weighed(int32_t first, int32_t second, const WeightPair& pair) {
  const auto sum = [&](int32_t weights) {
    return first * static_cast<int16_t>(weights) + second * (weights >> 16);
  };
  return sum(pair.high) * (1 << kLowBits) + sum(pair.low);
}
uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp((sum + (1 << (kWeightBits - 1))) >> kWeightBits, 0, 255));
}

// Two rows of pixels of three channels, which begin with pixel `begin`. Reads 8 bytes past their
// ends, writes 1 past the results'.
void narrow_rgb(const uint8_t* const rows[2], int64_t begin, const Taps& taps,
                uint8_t* const to[2]) {
  // Of two pixels r r, g g, b b and 0 0, in numbers of 16 bits; for each row.
  const __m256i by_channel = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const __m256i zero = _mm256_setzero_si256();
  const auto load = [](const uint8_t* from) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  };
  int64_t place = 0;
  for (const Taps::Output& output : taps.outputs) {
    int64_t at = 3 * (output.first - begin);
    Sums sums;
    for (size_t k = output.begin; k < output.begin + output.pairs; ++k, at += 6) {
      const __m256i pixels = _mm256_set_m128i(load(rows[1] + at), load(rows[0] + at));
      sums.add(_mm256_shuffle_epi8(pixels, by_channel), _mm256_set1_epi32(taps.pairs[k].high),
               _mm256_set1_epi32(taps.pairs[k].low));
    }
    const __m256i halves = _mm256_packs_epi32(sums.rounded(), zero);
    const __m256i bytes = _mm256_packus_epi16(halves, zero);
    const int32_t words[2] = {_mm256_extract_epi32(bytes, 0), _mm256_extract_epi32(bytes, 4)};
    for (int i = 0; i < 2; ++i) std::memcpy(to[i] + place, &words[i], sizeof words[i]);
    place += 3;
  }
}

// One row of pixels of any number of channels, which begins with pixel `begin`. Reads a pixel past
// its end.
void narrow_any(const uint8_t* row, int64_t begin, int64_t channels, const Taps& taps,
                uint8_t* to) {
  for (const Taps::Output& output : taps.outputs) {
    for (int64_t c = 0; c < channels; ++c) {
      const uint8_t* from = row + (output.first - begin) * channels + c;
      int32_t sum = 0;
      for (size_t k = output.begin; k < output.begin + output.pairs; ++k, from += 2 * channels) {
        sum += weighed(from[0], from[channels], taps.pairs[k]);
      }
      *to++ = rounded(sum);
    }
  }
}

// One row of the result, of `bytes`, from the rows of `stride` bytes that begin at `from`.
void combine_rows(const uint8_t* from, int64_t stride, const WeightPair* pairs, size_t count,
                  int64_t rows, int64_t bytes, uint8_t* to) {
  const __m256i zero = _mm256_setzero_si256();
  // The row that a last, odd one is paired with has weight 0, and may be missing.
  const auto second_of = [&](size_t k) {
    return std::min<int64_t>(static_cast<int64_t>(2 * k) + 1, rows - 1) * stride;
  };
  int64_t i = 0;
  for (; i + 32 <= bytes; i += 32) {
    Sums sums[4];
    for (size_t k = 0; k < count; ++k) {
      const auto load = [&](int64_t offset) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + offset + i));
      };
      // Each half of the registers is shuffled by itself here, and put back so below.
      const __m256i a = load(static_cast<int64_t>(2 * k) * stride), b = load(second_of(k));
      const __m256i lower = _mm256_unpacklo_epi8(a, b), upper = _mm256_unpackhi_epi8(a, b);
      const __m256i high = _mm256_set1_epi32(pairs[k].high);
      const __m256i low = _mm256_set1_epi32(pairs[k].low);
      sums[0].add(_mm256_unpacklo_epi8(lower, zero), high, low);
      sums[1].add(_mm256_unpackhi_epi8(lower, zero), high, low);
      sums[2].add(_mm256_unpacklo_epi8(upper, zero), high, low);
      sums[3].add(_mm256_unpackhi_epi8(upper, zero), high, low);
    }
    const __m256i halves = _mm256_packs_epi32(sums[0].rounded(), sums[1].rounded());
    const __m256i others = _mm256_packs_epi32(sums[2].rounded(), sums[3].rounded());
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_packus_epi16(halves, others));
  }
  for (; i < bytes; ++i) {
    int32_t sum = 0;
    for (size_t k = 0; k < count; ++k) {
      sum +=
          weighed(from[static_cast<int64_t>(2 * k) * stride + i], from[second_of(k) + i], pairs[k]);
    }
    to[i] = rounded(sum);
  }
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
  const Taps across =
      triangle_taps({box.left, box.width, size.width, kept.left, kept.size.width, source.width});
  const Taps down =
      triangle_taps({box.top, box.height, size.height, kept.top, kept.size.height, source.height});

  // Across, for every row that is drawn on.
  const int64_t top = down.outputs.front().first, bottom = down.outputs.back().last;
  const int64_t left = across.outputs.front().first, right = across.outputs.back().last;
  thread_local std::vector<uint8_t> ends[2], narrow;
  const int64_t stride = line + 1;  // a byte is written past the end
  narrow.resize(static_cast<size_t>((bottom - top) * stride));
  const int64_t bytes = (right - left) * channels, past = channels + 8;  // what is read past a row
  // The pixels of a row from `left` on; a copy where the image ends too soon behind them.
  const auto row_at = [&](int64_t y, int which) -> const uint8_t* {
    const int64_t begin = (y * source.width + left) * channels;
    const uint8_t* from = source.pixels.data() + begin;
    if (begin + bytes + past <= static_cast<int64_t>(source.pixels.size())) return from;
    ends[which].resize(static_cast<size_t>(bytes + past));
    std::copy(from, from + bytes, ends[which].begin());
    return ends[which].data();
  };
  for (int64_t y = top; y < bottom; y += channels == 3 ? 2 : 1) {
    const int64_t next = std::min(y + 1, bottom - 1);  // the last row, if odd, twice
    uint8_t* const to[] = {narrow.data() + (y - top) * stride,
                           narrow.data() + (next - top) * stride};
    if (channels == 3) {
      const uint8_t* const rows[] = {row_at(y, 0), row_at(next, 1)};
      narrow_rgb(rows, left, across, to);
    } else {
      narrow_any(row_at(y, 0), left, channels, across, to[0]);
    }
  }

  // Down.
  for (int64_t y = 0; y < kept.size.height; ++y) {
    const Taps::Output& output = down.outputs[static_cast<size_t>(y)];
    combine_rows(narrow.data() + (output.first - top) * stride, stride,
                 down.pairs.data() + output.begin, output.pairs, bottom - output.first, line,
                 out.pixels.data() + y * line);
  }
}

}  // namespace wick::data
