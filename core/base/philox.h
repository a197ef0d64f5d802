#pragma once

#include <cstdint>

#include "wick/core/base/macros.h"
#include "wick/core/base/wraps.h"

namespace wick {

/// Four random words.
struct Uint32x4 {
  uint32_t x = 0, y = 0, z = 0, w = 0;
  friend WICK_HOST_DEVICE constexpr bool operator==(const Uint32x4& a, const Uint32x4& b) {
    return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
  }
};

/// Two words: the key of Philox4x32.
struct Uint32x2 {
  uint32_t x = 0, y = 0;
};

/// Philox4x32-10: 128 random bits that depend on `counter` and `key` alone, so that any element of
/// a random sequence can be had at once, on every device with the same bits.
/// Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
WICK_WRAPS WICK_HOST_DEVICE constexpr Uint32x4 philox4x32(Uint32x4 counter, Uint32x2 key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t even = uint64_t{0xD2511F53u} * counter.x;
    const uint64_t odd = uint64_t{0xCD9E8D57u} * counter.z;
    counter = {static_cast<uint32_t>(odd >> 32) ^ counter.y ^ key.x, static_cast<uint32_t>(odd),
               static_cast<uint32_t>(even >> 32) ^ counter.w ^ key.y, static_cast<uint32_t>(even)};
    key = {key.x + 0x9E3779B9u, key.y + 0xBB67AE85u};
  }
  return counter;
}

/// Words 4·`offset` to 4·`offset` + 3 of sequence number `sequence` under `seed`: what cuRAND's
/// Philox gives for `curand_init(seed, sequence, 4 * offset)`.
WICK_HOST_DEVICE constexpr Uint32x4 philox4x32(uint64_t seed, uint64_t sequence, uint64_t offset) {
  return philox4x32(
      Uint32x4{static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32),
               static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32)},
      Uint32x2{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

/// A float in [0, 1) from the upper 24 bits of a random word: every value is a multiple of 2^-24.
WICK_HOST_DEVICE constexpr float uniform_float(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// A double in [0, 1) from the upper 53 bits of two random words.
WICK_HOST_DEVICE constexpr double uniform_double(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

/// An integer in [0, n), n > 0, by scaling: the most and the least likely differ by n / 2^32.
WICK_HOST_DEVICE constexpr uint32_t uniform_below(uint32_t word, uint32_t n) {
  return static_cast<uint32_t>((uint64_t{word} * n) >> 32);
}

/// The words of one sequence, one after the other. Cheap to make; copy it to keep its position.
class PhiloxStream {
 public:
  /// Starts at word 4·`offset` of the sequence.
  WICK_HOST_DEVICE constexpr PhiloxStream(uint64_t seed, uint64_t sequence, uint64_t offset = 0)
      : seed_(seed), sequence_(sequence), offset_(offset) {}

  /// The next word: 32 random bits.
  WICK_HOST_DEVICE constexpr uint32_t next() {
    if (used_ == 4) {
      words_ = philox4x32(seed_, sequence_, offset_++);
      used_ = 0;
    }
    const int i = used_++;
    return i == 0 ? words_.x : i == 1 ? words_.y : i == 2 ? words_.z : words_.w;
  }
  /// An integer in [0, n).
  WICK_HOST_DEVICE constexpr uint32_t below(uint32_t n) { return uniform_below(next(), n); }
  /// An integer in [low, high], both included.
  WICK_HOST_DEVICE constexpr int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<uint32_t>(high - low + 1)));
  }
  /// A float in [0, 1).
  WICK_HOST_DEVICE constexpr float uniform() { return uniform_float(next()); }

 private:
  uint64_t seed_, sequence_, offset_;
  Uint32x4 words_;
  int used_ = 4;
};

}  // namespace wick
