#pragma once

#include "wick/kernels/cpu/simd.h"

// What combines the lanes of a vector, always in the same order.
namespace wick::WICK_ISA {

/// Each group of kLanes lanes in the place of its neighbour.
template <int kLanes>
WICK_INLINE VecF exchange_lanes(VecF v) {
  if constexpr (kLanes <= 2) {
    constexpr int kOrder = kLanes == 2 ? 0x4e : 0xb1;
    return VecF(WICK_WIDE(_mm512_maskz_permute_ps(0xffff, v.reg, kOrder),
                          _mm256_permute_ps(v.reg, kOrder)));
  } else {
    [[maybe_unused]] constexpr int kOrder = kLanes == 8 ? 0x4e : 0xb1;
    return VecF(WICK_WIDE(_mm512_maskz_shuffle_f32x4(0xffff, v.reg, v.reg, kOrder),
                          _mm256_permute2f128_ps(v.reg, v.reg, 1)));
  }
}
template <int kLanes>
WICK_INLINE VecD exchange_lanes(VecD v) {
  if constexpr (kLanes == 1) {
    return VecD(
        WICK_WIDE(_mm512_maskz_permute_pd(0xff, v.reg, 0x55), _mm256_permute_pd(v.reg, 0x5)));
  } else {
    [[maybe_unused]] constexpr int kOrder = kLanes == 4 ? 0x4e : 0xb1;
    return VecD(WICK_WIDE(_mm512_maskz_shuffle_f64x2(0xff, v.reg, v.reg, kOrder),
                          _mm256_permute2f128_pd(v.reg, v.reg, 1)));
  }
}
WICK_INLINE float first_lane(VecF v) {
  return WICK_WIDE(_mm512_cvtss_f32(v.reg), _mm256_cvtss_f32(v.reg));
}
WICK_INLINE double first_lane(VecD v) {
  return WICK_WIDE(_mm512_cvtsd_f64(v.reg), _mm256_cvtsd_f64(v.reg));
}

/// Combines all lanes by `op`, halves first.
template <class T, class Op>
WICK_INLINE_ALL T reduce_lanes(Vec<T> v, const Op& op) {
  constexpr int64_t kLanes = Vec<T>::size;
  if constexpr (kLanes > 8) v = op(v, exchange_lanes<8>(v));
  if constexpr (kLanes > 4) v = op(v, exchange_lanes<4>(v));
  v = op(v, exchange_lanes<2>(v));
  return first_lane(op(v, exchange_lanes<1>(v)));
}
template <class T>
WICK_INLINE T reduce_add(Vec<T> v) {
  return reduce_lanes(v, [](Vec<T> a, Vec<T> b) { return a + b; });
}
/// NaN if any lane is NaN.
template <class T>
WICK_INLINE T reduce_max(Vec<T> v) {
  return reduce_lanes(v, [](Vec<T> a, Vec<T> b) { return max(a, b); });
}
template <class T>
WICK_INLINE T reduce_min(Vec<T> v) {
  return reduce_lanes(v, [](Vec<T> a, Vec<T> b) { return min(a, b); });
}

}  // namespace wick::WICK_ISA
