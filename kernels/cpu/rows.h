#pragma once

#include "wick/core/base/dtype.h"
#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/simd.h"

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

/// Sums `term(i, n)` over the vectors of a row; lanes at n and beyond must be 0. Four partial sums
/// per lane, emptied into a double every 4096 elements.
template <class A, class Term>
WICK_INLINE_ALL double sum_row(int64_t size, const Term& term) {
  constexpr int64_t kLanes = Vec<A>::size;
  constexpr int64_t kBlock = 4096;
  double total = 0;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t end = begin + kBlock < size ? begin + kBlock : size;
    Vec<A> s0(0), s1(0), s2(0), s3(0);
    int64_t i = begin;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
      s0 += term(i, kLanes);
      s1 += term(i + kLanes, kLanes);
      s2 += term(i + 2 * kLanes, kLanes);
      s3 += term(i + 3 * kLanes, kLanes);
    }
    for (; i + kLanes <= end; i += kLanes) s0 += term(i, kLanes);
    if (i < end) s1 += term(i, end - i);
    total += static_cast<double>(reduce_add((s0 + s1) + (s2 + s3)));
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
