#pragma once

#include "wick/core/base/dtype.h"
#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/simd_lanes.h"

// Loops over one contiguous row of elements, in vectors of the accumulator's type. A row's tail is
// computed by the same vector code on padded lanes, so that equal rows give equal bits wherever
// they end.
namespace wick::WICK_ISA {

WICK_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
WICK_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
WICK_INLINE int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

/// Rows of up to this many elements fit a buffer on the stack.
inline constexpr int64_t kRowBuffer = 8192;

/// The first `n` < size elements from `p`; the other lanes are `fill`.
template <class A, class S>
WICK_INLINE Vec<A> load_filled(const S* p, int64_t n, A fill) {
  A padded[Vec<A>::size];
  for (int64_t i = 0; i < Vec<A>::size; ++i) padded[i] = i < n ? static_cast<A>(p[i]) : fill;
  return Vec<A>::load(padded);
}

/// `size` lanes from `p`, or the first `n` of them where n < size.
template <class A, class S>
WICK_INLINE Vec<A> load_up_to(const S* p, int64_t n) {
  return n >= Vec<A>::size ? Vec<A>::load(p) : Vec<A>::load_partial(p, n);
}
template <class A, class S>
WICK_INLINE void store_up_to(Vec<A> v, S* p, int64_t n) {
  if (n >= Vec<A>::size) {
    v.store(p);
  } else {
    v.store_partial(p, n);
  }
}

/// Calls `body(i, n)` for i = 0, W, 2 W, ... below `size`, where n is the number of lanes left, at
/// most W, the lanes of a Vec<A>.
template <class A, class Body>
WICK_INLINE_ALL void for_vectors(int64_t size, const Body& body) {
  constexpr int64_t kLanes = Vec<A>::size;
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) body(i, kLanes);
  if (i < size) body(i, size - i);
}

/// Lanes of a sum along a row: as many on every instruction set, so that sums have the same bits.
template <class A>
constexpr int64_t kSumLanes = 64 / static_cast<int64_t>(sizeof(A));

/// Partial sums, one for each of kSumLanes.
template <class A>
struct LaneSums {
  static constexpr int64_t kParts = kSumLanes<A> / Vec<A>::size;
  Vec<A> parts[kParts];

  WICK_INLINE LaneSums() {
    for (Vec<A>& part : parts) part = Vec<A>(A(0));
  }
  WICK_INLINE Vec<A>& operator[](int64_t part) { return parts[part]; }
  WICK_INLINE LaneSums operator+(const LaneSums& b) const {
    LaneSums sum;
    for (int64_t i = 0; i < kParts; ++i) sum.parts[i] = parts[i] + b.parts[i];
    return sum;
  }
  WICK_INLINE A total() const {
    static_assert(kParts <= 2);
    return reduce_add(kParts == 2 ? parts[0] + parts[1] : parts[0]);
  }
};

/// Calls `body(i, n, part)` for the vectors of elements [begin, end) of a row, of which n lanes are
/// left, where `part` of a LaneSums has their sums.
template <class A, class Body>
WICK_INLINE_ALL void for_sum_lanes(int64_t begin, int64_t end, const Body& body) {
  constexpr int64_t kLanes = Vec<A>::size, kParts = LaneSums<A>::kParts;
  int64_t i = begin;
  for (; i + kSumLanes<A> <= end; i += kSumLanes<A>) {
#pragma GCC unroll 2
    for (int64_t part = 0; part < kParts; ++part) body(i + part * kLanes, kLanes, part);
  }
#pragma GCC unroll 2
  for (int64_t part = 0; part < kParts; ++part) {
    if (i + part * kLanes >= end) break;
    body(i + part * kLanes, smaller(kLanes, end - i - part * kLanes), part);
  }
}

/// Sums `term(i, n)` over the vectors of a row; lanes at n and beyond must be 0. Four partial sums
/// per lane, emptied into a double every 4096 elements.
template <class A, class Term>
WICK_INLINE_ALL double sum_row(int64_t size, const Term& term) {
  constexpr int64_t kBlock = 4096, kGroup = kSumLanes<A>;
  double total = 0;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t end = smaller(begin + kBlock, size);
    LaneSums<A> s0, s1, s2, s3;
    int64_t i = begin;
    for (; i + 4 * kGroup <= end; i += 4 * kGroup) {
#pragma GCC unroll 2
      for (int64_t part = 0; part < LaneSums<A>::kParts; ++part) {
        const int64_t at = i + part * Vec<A>::size;
        s0[part] += term(at, Vec<A>::size);
        s1[part] += term(at + kGroup, Vec<A>::size);
        s2[part] += term(at + 2 * kGroup, Vec<A>::size);
        s3[part] += term(at + 3 * kGroup, Vec<A>::size);
      }
    }
    for_sum_lanes<A>(i, end, [&](int64_t at, int64_t n, int64_t part) { s0[part] += term(at, n); });
    total += static_cast<double>(((s0 + s1) + (s2 + s3)).total());
  }
  return total;
}

/// The largest element of a row that has one; any number if one of them is NaN.
template <class A, class T>
WICK_INLINE A max_row(const T* x, int64_t size) {
  constexpr int64_t kLanes = Vec<A>::size;
  constexpr A kLowest = -static_cast<A>(__builtin_inf());
  Vec<A> m0(kLowest), m1(kLowest), m2(kLowest), m3(kLowest);
  int64_t i = 0;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
    m0 = max_or_second(Vec<A>::load(x + i), m0);
    m1 = max_or_second(Vec<A>::load(x + i + kLanes), m1);
    m2 = max_or_second(Vec<A>::load(x + i + 2 * kLanes), m2);
    m3 = max_or_second(Vec<A>::load(x + i + 3 * kLanes), m3);
  }
  for (; i + kLanes <= size; i += kLanes) m0 = max_or_second(Vec<A>::load(x + i), m0);
  if (i < size) m1 = max_or_second(load_filled<A>(x + i, size - i, kLowest), m1);
  return reduce_max(max_or_second(max_or_second(m0, m1), max_or_second(m2, m3)));
}

/// Rows per thread so that each gets at least 32768 elements.
WICK_INLINE int64_t row_grain(int64_t row_size) {
  return row_size >= 32768 ? 1 : 32768 / (row_size > 0 ? row_size : 1);
}

/// Whether rows of `size` T from `y` on may be written with Vec::stream, and are worth it.
template <class T>
WICK_INLINE bool should_stream(const T* y, int64_t rows, int64_t size) {
  constexpr bool kPossible = sizeof(T) >= 4;
  return kPossible && rows * size * static_cast<int64_t>(sizeof(T)) > kStreamBytes &&
         reinterpret_cast<uintptr_t>(y) % 64 == 0 &&
         size * static_cast<int64_t>(sizeof(T)) % 64 == 0;
}

/// Writes `v` to `y`: past the caches, or its first `n` lanes as they fit.
template <class A, class T>
WICK_INLINE void put(Vec<A> v, T* y, int64_t n, bool stream) {
  if constexpr (sizeof(T) >= 4) {
    if (stream) return v.stream(y);
  }
  store_up_to(v, y, n);
}

}  // namespace wick::WICK_ISA
