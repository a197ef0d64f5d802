#pragma once

#include <utility>

#include "wick/kernels/cpu/rows.h"

namespace wick::WICK_ISA {

/// The elements of the lower (or upper) halves of `a` and `b` in turn.
template <bool kHigh, class V, int... kLane>
WICK_INLINE V interleave(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int kSize = sizeof...(kLane);
  return __builtin_shufflevector(a, b,
                                 (kLane / 2 + kLane % 2 * kSize + (kHigh ? kSize / 2 : 0))...);
}

/// Transposes kSize vectors of as many lanes: each round moves one bit of a row's number to the
/// lane's.
template <int kSize, class V>
WICK_INLINE void transpose_square(V* rows) {
  using Indices = std::make_integer_sequence<int, kSize>;
#pragma GCC unroll 5
  for (int round = kSize; round > 1; round /= 2) {
    V turned[kSize];
#pragma GCC unroll 16
    for (int i = 0; i < kSize / 2; ++i) {
      turned[2 * i] = interleave<false>(rows[i], rows[i + kSize / 2], Indices{});
      turned[2 * i + 1] = interleave<true>(rows[i], rows[i + kSize / 2], Indices{});
    }
#pragma GCC unroll 32
    for (int i = 0; i < kSize; ++i) rows[i] = turned[i];
  }
}

/// Transposes a square of rows that are `from_row` and `to_row` elements apart. E is an unsigned
/// integer as large as an element.
template <class E, int kSize>
WICK_INLINE void copy_transposed(const E* from, int64_t from_row, E* to, int64_t to_row) {
  typedef E V __attribute__((vector_size(kSize * sizeof(E))));
  V rows[kSize];
#pragma GCC unroll 16
  for (int i = 0; i < kSize; ++i) __builtin_memcpy(&rows[i], from + i * from_row, sizeof(V));
  transpose_square<kSize>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < kSize; ++i) __builtin_memcpy(to + i * to_row, &rows[i], sizeof(V));
}

}  // namespace wick::WICK_ISA
