#pragma once

#include "wick/kernels/cpu/rows.h"

// The innermost piece of matrix products: a tile of results that stays in registers while its sums
// run along k. Each result is one chain of multiply-adds, so that its bits depend neither on where
// it lies in the tile nor on how wide vectors are.
namespace wick::WICK_ISA {

inline constexpr int64_t kTileRows = 6;
inline constexpr int64_t kTileVectors = WICK_WIDE(4, 2);  // of each of its rows
inline constexpr int64_t kAhead = 8;  // rows of `b` that are fetched before they are used
template <class T>
inline constexpr int64_t kTileColumns = kTileVectors* Vec<T>::size;

/// c[r, j] = start[r, j] + the sum over k of a[r, k] b[k, j], for the first `width` columns.
template <class T>
struct Tile {
  int64_t inner = 0;  // how many k
  const T* a = nullptr;
  int64_t a_row = 0, a_step = 0;  // from one r to the next, from one k to the next
  const T* b = nullptr;
  int64_t b_step = 0;
  bool padded = false;  // whether rows of `b` go on to the end of a vector
  T* c = nullptr;
  int64_t c_row = 0, width = 0;
  bool is_far = false;       // whether `c` is likely in no near cache
  const T* start = nullptr;  // null: zeros
  int64_t start_row = 0;
};

// A masked load takes a unit that multiplies: kWhole does without, where `b` has whole vectors.
template <class T, int kRows, int kVectors, bool kWhole>
[[gnu::noinline]] void multiply_tile(const Tile<T>& tile) {
  using V = Vec<T>;
  const FirstLanes<T> last(tile.width - (kVectors - 1) * V::size);
  const int64_t a_row = tile.a_row, a_step = tile.a_step, b_step = tile.b_step;
  const T *a = tile.a, *b = tile.b;
  V sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if (tile.is_far) __builtin_prefetch(tile.c + r * tile.c_row + v * V::size);
      sums[r][v] = V(T(0));
    }
  }
  for (int64_t k = tile.inner; k > 0; --k, a += a_step, b += b_step) {
    V row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v + 1 < kVectors; ++v) row[v] = V::load(b + v * V::size);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(b + kAhead * b_step + v * V::size);
    const T* const end = b + (kVectors - 1) * V::size;
    row[kVectors - 1] = kWhole ? V::load(end) : last.load(end);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const V x(a[r * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = fma(x, row[v], sums[r][v]);
    }
  }
  const T* start = tile.start;
  const int64_t start_row = tile.start_row, c_row = tile.c_row;
  const bool adds = start != nullptr;
  T* c = tile.c;
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r, start += start_row, c += c_row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = v * V::size;
      V sum = sums[r][v];
      if (v + 1 < kVectors) {
        if (adds) sum = V::load(start + at) + sum;
        sum.store(c + at);
      } else {
        if (adds) sum = last.load(start + at) + sum;
        last.store(sum, c + at);
      }
    }
  }
}

/// Tiles so narrow may have 8 or 12 rows too: sums enough to hide what a multiply-add takes.
template <class T>
inline constexpr int64_t kNarrow = WICK_WIDE(2, 1) * Vec<T>::size;

/// How many rows of the `left` ones the next tile takes.
template <class T>
WICK_INLINE int64_t tile_rows(int64_t left, int64_t columns) {
  if (columns <= kNarrow<T> && left >= 8) return left >= 12 && left != 16 ? 12 : 8;
  return left <= kTileRows ? left : left < 2 * kTileRows ? (left + 1) / 2 : kTileRows;
}

template <class T, int kRows, int kVectors>
WICK_INLINE void multiply_vectors(const Tile<T>& tile) {
  if (tile.padded || tile.width == kVectors * Vec<T>::size) {
    return multiply_tile<T, kRows, kVectors, true>(tile);
  }
  multiply_tile<T, kRows, kVectors, false>(tile);
}

template <class T, int kRows>
WICK_INLINE void multiply_narrow(const Tile<T>& tile) {
#ifdef __AVX512F__
  if (tile.width > Vec<T>::size) return multiply_vectors<T, kRows, 2>(tile);
#endif
  multiply_vectors<T, kRows, 1>(tile);
}

template <class T, int kRows>
WICK_INLINE void multiply_rows(const Tile<T>& tile) {
  if (tile.width <= kNarrow<T>) return multiply_narrow<T, kRows>(tile);
#ifdef __AVX512F__
  if (tile.width <= 3 * Vec<T>::size) return multiply_vectors<T, kRows, 3>(tile);
#endif
  multiply_vectors<T, kRows, kTileVectors>(tile);
}

/// A tile of 1 to kTileColumns columns and as many rows as tile_rows() says.
template <class T>
WICK_INLINE void multiply_tile(int64_t rows, const Tile<T>& tile) {
  switch (rows) {
    case 1: return multiply_rows<T, 1>(tile);
    case 2: return multiply_rows<T, 2>(tile);
    case 3: return multiply_rows<T, 3>(tile);
    case 4: return multiply_rows<T, 4>(tile);
    case 5: return multiply_rows<T, 5>(tile);
    case 6: return multiply_rows<T, 6>(tile);
    case 8: return multiply_narrow<T, 8>(tile);
    default: return multiply_narrow<T, 12>(tile);
  }
}

}  // namespace wick::WICK_ISA
