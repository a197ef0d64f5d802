#pragma once

#include <bit>
#include <cstdint>

#include "wick/core/base/macros.h"

namespace wick {

/// IEEE 754 binary16. A storage type: arithmetic happens in float, results round to nearest even.
struct Half {
  uint16_t bits = 0;

  Half() = default;
  WICK_HOST_DEVICE explicit Half(float value) : bits(from_float(value)) {}
  WICK_HOST_DEVICE operator float() const { return to_float(bits); }

  WICK_HOST_DEVICE static float to_float(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) {  // infinity, NaN
      return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    }
    if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
    const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
  }

  WICK_HOST_DEVICE static uint16_t from_float(float value) {
    const uint32_t x = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (x >> 16) & 0x8000u;
    const uint32_t magnitude = x & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // past 65504
    if (magnitude < 0x38800000u) {  // subnormal: let the float adder round
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0x0fffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
};

/// bfloat16: the upper half of a float. A storage type like Half.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  WICK_HOST_DEVICE explicit BFloat16(float value) : bits(from_float(value)) {}
  WICK_HOST_DEVICE operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }

  WICK_HOST_DEVICE static uint16_t from_float(float value) {
    const uint32_t x = std::bit_cast<uint32_t>(value);
    if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((x >> 16) | 0x40u);  // NaN
    return static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
  }
};

}  // namespace wick
