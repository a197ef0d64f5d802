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

/// How an element of `a`, in all lanes, and those of `b` join a sum.
struct MultiplyAdd {
  template <class V>
  static WICK_INLINE V add(V a, V b, V sum) {
    return fma(a, b, sum);
  }
};

#ifdef __AVX512F__
/// Elements are pairs of bfloat16, of which both products are added.
struct MultiplyPairs {
  static WICK_INLINE VecF add(VecF a, VecF b, VecF sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.reg) : "v"(a.reg), "v"(b.reg));
    return sum;
  }
};
/// Rounds two vectors to one; what has dot products of pairs has this too.
WICK_INLINE __m512i round_pair(VecF low, VecF high) {
  __m512i rounded;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(rounded) : "v"(low.reg), "v"(high.reg));
  return rounded;
}
#endif

/// c[r, j] = start[r, j] + the sum over k of a[r, k] b[k, j], for the first `width` columns.
template <class T, class Multiply = MultiplyAdd>
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
template <int kRows, int kVectors, bool kWhole, class T, class Multiply>
[[gnu::noinline]] void multiply_tile(const Tile<T, Multiply>& tile) {
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
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Multiply::add(x, row[v], sums[r][v]);
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

template <int kRows, int kVectors, class T, class Multiply>
WICK_INLINE void multiply_vectors(const Tile<T, Multiply>& tile) {
  if (tile.padded || tile.width == kVectors * Vec<T>::size) {
    return multiply_tile<kRows, kVectors, true>(tile);
  }
  multiply_tile<kRows, kVectors, false>(tile);
}

template <int kRows, class T, class Multiply>
WICK_INLINE void multiply_narrow(const Tile<T, Multiply>& tile) {
#ifdef __AVX512F__
  if (tile.width > Vec<T>::size) return multiply_vectors<kRows, 2>(tile);
#endif
  multiply_vectors<kRows, 1>(tile);
}

template <int kRows, class T, class Multiply>
WICK_INLINE void multiply_rows(const Tile<T, Multiply>& tile) {
  if (tile.width <= kNarrow<T>) return multiply_narrow<kRows>(tile);
#ifdef __AVX512F__
  if (tile.width <= 3 * Vec<T>::size) return multiply_vectors<kRows, 3>(tile);
#endif
  multiply_vectors<kRows, kTileVectors>(tile);
}

/// A tile of 1 to kTileColumns columns and as many rows as tile_rows() says.
template <class T, class Multiply>
WICK_INLINE void multiply_tile(int64_t rows, const Tile<T, Multiply>& tile) {
  switch (rows) {
    case 1: return multiply_rows<1>(tile);
    case 2: return multiply_rows<2>(tile);
    case 3: return multiply_rows<3>(tile);
    case 4: return multiply_rows<4>(tile);
    case 5: return multiply_rows<5>(tile);
    case 6: return multiply_rows<6>(tile);
    case 8: return multiply_narrow<8>(tile);
    default: return multiply_narrow<12>(tile);
  }
}

}  // namespace wick::WICK_ISA
