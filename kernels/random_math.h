#pragma once

#include <math.h>

#include <cstdint>

#include "wick/core/base/dtype.h"
#include "wick/core/base/philox.h"
#include "wick/core/base/wraps.h"
#include "wick/kernels/random.h"

// From random words to numbers, with the same bits on every device: each step is an operation that
// IEEE 754 rounds, and every multiply-add says so, leaving the compiler none to fuse.

namespace wick {

/// Draws of tensors use the upper half of Philox' sequences, so that no stream of a data loader,
/// which numbers its samples from 0, repeats them.
inline constexpr uint64_t kTensorSequences = uint64_t{1} << 63;

/// Words 4 * `block` to 4 * `block` + 3 of the draw that `key` names.
WICK_HOST_DEVICE Uint32x4 random_words(RandomKey key, int64_t block) {
  return philox4x32(key.seed, kTensorSequences + static_cast<uint64_t>(block), key.offset);
}

WICK_HOST_DEVICE float fused(float a, float b, float c) { return ::fmaf(a, b, c); }
WICK_HOST_DEVICE double fused(double a, double b, double c) { return ::fma(a, b, c); }
WICK_HOST_DEVICE float square_root(float x) { return ::sqrtf(x); }
WICK_HOST_DEVICE double square_root(double x) { return ::sqrt(x); }

WICK_HOST_DEVICE uint64_t join_words(uint32_t high, uint32_t low) {
  return uint64_t{high} << 32 | low;
}

/// Binary digits that a uniform number of type T gets: as many as T holds.
template <class T>
inline constexpr int kDigits = 24;
template <>
inline constexpr int kDigits<Half> = 11;
template <>
inline constexpr int kDigits<BFloat16> = 8;

/// A number in [0, 1) with `digits` random binary digits.
WICK_HOST_DEVICE float unit_float(uint32_t word, int digits) {
  const float scale = digits == 24 ? 0x1p-24f : digits == 11 ? 0x1p-11f : 0x1p-8f;
  return static_cast<float>(static_cast<int32_t>(word >> (32 - digits))) * scale;
}
WICK_HOST_DEVICE double unit_double(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53;
}

/// From a number in [0, 1) to one in [low, high), of type T.
template <class T>
struct Scaled {
  Accumulator<T> low, high, span;
  WICK_HOST_DEVICE Scaled(double low_in, double high_in)
      : low(static_cast<Accumulator<T>>(low_in)),
        high(static_cast<Accumulator<T>>(high_in)),
        span(high - low) {}
  WICK_HOST_DEVICE T operator()(Accumulator<T> u) const {
    const T value = T(fused(u, span, low));
    // Rounding may reach `high`, which is not in the interval.
    return static_cast<Accumulator<T>>(value) < high ? value : T(low);
  }
};

/// Whether the word draws an event of probability p.
WICK_HOST_DEVICE bool happens(uint32_t word, double p) {
  return static_cast<double>(word) * 0x1p-32 < p;
}
/// The words below this many are events of probability p: `happens`, decided beforehand.
WICK_HOST_DEVICE uint32_t words_of_events(double p) {
  const double words = p * 0x1p32;
  return words < 0x1p32 - 1 ? static_cast<uint32_t>(words) : UINT32_MAX;
}

/// Natural logarithm of u in (0, 1], by the series of artanh((m - 1) / (m + 1)).
WICK_HOST_DEVICE float log_of_unit(float u) {
  const int32_t bits = __builtin_bit_cast(int32_t, u);
  const int32_t exponent = (bits - 0x3f3504f3) >> 23;  // the mantissa in [sqrt(1/2), sqrt(2))
  const float m = __builtin_bit_cast(float, bits - exponent * (1 << 23));
  const float s = (m - 1.0f) / (m + 1.0f), s2 = s * s;
  float p = fused(s2, 2.0f / 9, 2.0f / 7);
  p = fused(s2, p, 2.0f / 5);
  p = fused(s2, p, 2.0f / 3);
  p = fused(s2, p, 2.0f);
  return fused(static_cast<float>(exponent), 0.693147180559945f, s * p);
}
WICK_HOST_DEVICE double log_of_unit(double u) {
  const int64_t bits = __builtin_bit_cast(int64_t, u);
  const int64_t exponent = (bits - 0x3fe6a09e667f3bcd) >> 52;
  const double m = __builtin_bit_cast(double, bits - exponent * (int64_t{1} << 52));
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double p = 2.0 / 23;
  for (int k = 21; k > 0; k -= 2) p = fused(s2, p, 2.0 / k);
  return fused(static_cast<double>(exponent), 0.693147180559945309417, s * p);
}

template <class T>
struct TwoNormals {
  T first, second;
};

/// Rotates a length by a quarter of turns `quarter` (0 to 3) and an angle in [-pi/4, pi/4], whose
/// sine and cosine are given.
template <class T>
WICK_HOST_DEVICE TwoNormals<T> rotate(T length, uint32_t quarter, T sine, T cosine) {
  const bool swapped = (quarter & 1) != 0;
  const T first = swapped ? sine : cosine, second = swapped ? cosine : sine;
  const T sign0 = ((quarter + 1) & 2) != 0 ? T{-1} : T{1};
  const T sign1 = (quarter & 2) != 0 ? T{-1} : T{1};
  return {length * (first * sign0), length * (second * sign1)};
}

/// Two independent standard normal numbers from two random words.
/// Box, Muller: A note on the generation of random normal deviates (1958).
WICK_HOST_DEVICE TwoNormals<float> box_muller(uint32_t word0, uint32_t word1) {
  const float u = fused(static_cast<float>(static_cast<int32_t>(word0 >> 1)), 0x1p-31f, 0x1p-32f);
  const float length = square_root(-2.0f * log_of_unit(u));
  const float turn = static_cast<float>(static_cast<int32_t>((word1 << 2) ^ 0x80000000u));
  const float a = turn * (1.57079632679489662f * 0x1p-32f), a2 = a * a;
  float sine = fused(a2, 1.0f / 362880, -1.0f / 5040);
  sine = fused(a2, sine, 1.0f / 120);
  sine = fused(a2, sine, -1.0f / 6);
  sine = fused(a2 * a, sine, a);
  float cosine = fused(a2, 1.0f / 40320, -1.0f / 720);
  cosine = fused(a2, cosine, 1.0f / 24);
  cosine = fused(a2, cosine, -1.0f / 2);
  cosine = fused(a2, cosine, 1.0f);
  return rotate(length, word1 >> 30, sine, cosine);
}
WICK_HOST_DEVICE TwoNormals<double> box_muller(uint64_t word0, uint64_t word1) {
  const double u = fused(static_cast<double>(static_cast<int64_t>(word0 >> 11)), 0x1p-53, 0x1p-54);
  const double length = square_root(-2.0 * log_of_unit(u));
  const double turn = static_cast<double>(static_cast<int64_t>((word1 << 2) ^ (uint64_t{1} << 63)));
  const double a = turn * (1.57079632679489662 * 0x1p-64), a2 = a * a;
  double sine = 1.0, cosine = 1.0;
  for (int k = 18; k > 0; k -= 2) sine = fused(a2 * (-1.0 / (k * (k + 1))), sine, 1.0);
  for (int k = 18; k > 0; k -= 2) cosine = fused(a2 * (-1.0 / (k * (k - 1))), cosine, 1.0);
  return rotate(length, static_cast<uint32_t>(word1 >> 62), a * sine, cosine);
}

/// low + an integer in [0, range), range > 0 or 0 for 2^64; the most and the least likely differ by
/// range / 2^64.
WICK_WRAPS WICK_HOST_DEVICE int64_t integer_from(uint64_t word, int64_t low, uint64_t range) {
#ifdef __CUDA_ARCH__
  const uint64_t scaled = __umul64hi(word, range);
#else
  __extension__ using Wide = unsigned __int128;
  const uint64_t scaled = static_cast<uint64_t>((static_cast<Wide>(word) * range) >> 64);
#endif
  return static_cast<int64_t>(static_cast<uint64_t>(low) + (range == 0 ? word : scaled));
}

}  // namespace wick
