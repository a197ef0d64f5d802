#pragma once

#include <immintrin.h>

#include <cstdint>

#include "wick/core/base/macros.h"
#include "wick/kernels/random_math.h"

// Philox4x32-10 of many counters at once: each 64-bit lane holds one counter's words in its lower
// halves; the upper ones hold what is left of the products and are never read.

namespace wick::WICK_ISA {

inline constexpr int64_t kUnit = 128;  // words made at once: 32 counters

#ifdef __AVX512F__
inline constexpr int kPhiloxLanes = 8, kPhiloxAtOnce = 4;
#else
inline constexpr int kPhiloxLanes = 4, kPhiloxAtOnce = 2;
#endif
typedef uint64_t Lanes __attribute__((vector_size(8 * kPhiloxLanes)));

// The products of the lower halves.
WICK_INLINE Lanes multiply(Lanes a, Lanes b) {
#ifdef __AVX512F__
  // The form without a mask makes g++ 12 warn of its own header.
  return reinterpret_cast<Lanes>(
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#else
  return reinterpret_cast<Lanes>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#endif
}

// Which counter each lane takes, so that store() writes them in order.
WICK_INLINE Lanes lane_order() {
#ifdef __AVX512F__
  return Lanes{0, 4, 1, 5, 2, 6, 3, 7};
#else
  return Lanes{0, 2, 1, 3};
#endif
}

WICK_INLINE void store(uint32_t* out, Lanes x, Lanes y, Lanes z, Lanes w) {
  const Lanes xy = (x & 0xffffffffu) | y << 32, zw = (z & 0xffffffffu) | w << 32;
#ifdef __AVX512F__
  const Lanes first = __builtin_shufflevector(xy, zw, 0, 8, 2, 10, 4, 12, 6, 14);
  const Lanes second = __builtin_shufflevector(xy, zw, 1, 9, 3, 11, 5, 13, 7, 15);
#else
  const Lanes first = __builtin_shufflevector(xy, zw, 0, 4, 2, 6);
  const Lanes second = __builtin_shufflevector(xy, zw, 1, 5, 3, 7);
#endif
  __builtin_memcpy(out, &first, sizeof(first));
  __builtin_memcpy(out + 2 * kPhiloxLanes, &second, sizeof(second));
}

/// Words kUnit * unit to kUnit * (unit + 1) - 1 of the draw that `key` names.
WICK_INLINE void make_words(RandomKey key, int64_t unit, uint32_t* words) {
  const uint64_t block = kTensorSequences + static_cast<uint64_t>(unit) * (kUnit / 4);
  const Lanes zero{}, even = zero + 0xD2511F53u, odd = zero + 0xCD9E8D57u;
  for (int first = 0; first < kUnit / 4; first += kPhiloxLanes * kPhiloxAtOnce) {
    Lanes x[kPhiloxAtOnce], y[kPhiloxAtOnce], z[kPhiloxAtOnce], w[kPhiloxAtOnce];
    for (int i = 0; i < kPhiloxAtOnce; ++i) {
      const uint64_t at = block + static_cast<uint64_t>(first + i * kPhiloxLanes);
      x[i] = zero + static_cast<uint32_t>(key.offset);
      y[i] = zero + static_cast<uint32_t>(key.offset >> 32);
      z[i] = lane_order() + static_cast<uint32_t>(at);
      w[i] = zero + static_cast<uint32_t>(at >> 32);
    }
    uint32_t key0 = static_cast<uint32_t>(key.seed), key1 = static_cast<uint32_t>(key.seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < kPhiloxAtOnce; ++i) {
        const Lanes p = multiply(x[i], even), q = multiply(z[i], odd);
        x[i] = q >> 32 ^ y[i] ^ key0;
        y[i] = q;
        z[i] = p >> 32 ^ w[i] ^ key1;
        w[i] = p;
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < kPhiloxAtOnce; ++i) {
      store(words + 4 * (first + i * kPhiloxLanes), x[i], y[i], z[i], w[i]);
    }
  }
}

}  // namespace wick::WICK_ISA
