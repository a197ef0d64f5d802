#pragma once

#include "wick/kernels/cpu/product_tile.h"
#include "wick/kernels/cpu/transpose_square.h"

// How matrix products copy a part of an operand to where a tile reads it fast.
namespace wick::WICK_ISA {

/// Copies `lines` lines of `size` elements, which are `from_line` and `to_line` elements apart.
template <class T, class S>
WICK_INLINE void pack_lines(const S* from, int64_t from_line, int64_t lines, int64_t size,
                            int64_t to_line, T* to) {
  for (int64_t i = 0; i < lines; ++i, from += from_line, to += to_line) {
    for (int64_t at = 0; at < size; at += Vec<T>::size) {
      __builtin_prefetch(from + kAhead * from_line + at);
      store_up_to(load_up_to<T>(from + at, size - at), to + at, size - at);
    }
  }
}

/// Copies `lines` lines of `rows` elements, which are `from_line` elements apart, tile by tile:
/// `to` gets all lines of the tile_rows() first elements, then those of the next. A line is read
/// once.
template <class T>
WICK_INLINE void pack_tiles(const T* from, int64_t from_line, int64_t lines, int64_t rows,
                            int64_t columns, T* to) {
  for (int64_t i = 0; i < lines; ++i, from += from_line) {
    for (int64_t begin = 0, size; begin < rows; begin += size) {
      size = tile_rows<T>(rows - begin, columns);
      T* const tile = to + begin * lines + i * size;
      __builtin_prefetch(from + kAhead * from_line + begin);
      for (int64_t at = 0; at < size; at += Vec<T>::size) {
        const Vec<T> some = load_up_to<T>(from + begin + at, rows - begin - at);
        if (at + Vec<T>::size <= (lines - i) * size) {
          some.store(tile + at);  // what is too much, the next lines overwrite
        } else {
          store_up_to(some, tile + at, size - at);
        }
      }
    }
  }
}

/// Copies a square as wide as a vector, or its first `rows` rows and `columns` columns, of which
/// the others are 0. The columns of `from` are `column` elements apart.
template <class T, class S>
WICK_INLINE void pack_transposed(const S* from, int64_t column, int64_t rows, int64_t columns,
                                 T* to, int64_t to_row) {
  constexpr int64_t kLanes = Vec<T>::size;
  typename Vec<T>::Reg square[kLanes];
  if (rows >= kLanes && columns >= kLanes) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < kLanes; ++i) {
      square[i] = Vec<T>::load(from + i * column).reg;
      __builtin_prefetch(from + i * column + 2 * kLanes);
    }
  } else {
    for (int64_t i = 0; i < kLanes; ++i) {
      square[i] = (i < columns ? load_up_to<T>(from + i * column, rows) : Vec<T>(T(0))).reg;
    }
  }
  transpose_square<kLanes>(square);
#pragma GCC unroll 16
  for (int64_t i = 0; i < kLanes; ++i) {
    if (i < rows) Vec<T>(square[i]).store(to + i * to_row);
  }
}

/// `to` gets `inner` rows of kTileColumns<T>: `width` columns of `from`, whose rows and columns are
/// `row` and `column` elements apart. Vectors of `to` without a column are not written.
template <class T, class S>
WICK_INLINE void pack_columns(const S* from, int64_t row, int64_t column, int64_t inner,
                              int64_t width, T* to) {
  constexpr int64_t kLanes = Vec<T>::size, kRow = kTileColumns<T>;
  if (column == 1 || width == 1) {
    for (int64_t k = 0; k < inner; ++k) {
      for (int64_t j = 0; j < width; j += kLanes) {
        __builtin_prefetch(from + (k + kAhead) * row + j);
        load_up_to<T>(from + k * row + j, width - j).store(to + k * kRow + j);
      }
    }
    return;
  }
  for (int64_t k = 0; k < inner; k += kLanes) {
    for (int64_t j = 0; j < width; j += kLanes) {
      pack_transposed(from + k + j * column, column, smaller(kLanes, inner - k), width - j,
                      to + k * kRow + j, kRow);
    }
  }
}

#ifdef __AVX512F__

// --- Pairs of bfloat16 along k, of which each takes the place of a float ------------------------

/// Up to 16 elements of `even` and of `odd` as pairs. A null `odd` has zeros.
WICK_INLINE VecF load_pairs(const BFloat16* even, const BFloat16* odd, int64_t count) {
  const __mmask16 mask = static_cast<__mmask16>(halves_mask(count));
  __m512i pairs = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, even));
  if (odd != nullptr) {
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, odd));
    pairs = _mm512_or_si512(pairs, _mm512_slli_epi32(high, 16));
  }
  return VecF(_mm512_castsi512_ps(pairs));
}

// 48 elements of two lines as pairs, in eight tiles of 6 rows, which are `tile` floats apart. Whole
// vectors are written.
WICK_INLINE void pack_pair_block(const BFloat16* even, const BFloat16* odd, int64_t tile,
                                 float* to) {
  static_assert(kTileRows == 6);
  const auto load = [](const BFloat16* x) { return _mm512_loadu_si512(x); };
  const auto load_half = [](const BFloat16* x) {
    return _mm512_maskz_loadu_epi16(halves_mask(16), x);
  };
  const Pairs first(load(even), load(odd)), last(load_half(even + 32), load_half(odd + 32));
  const __m512i low = first.low, high = first.high, third = last.low;
  _mm512_storeu_si512(to, low);
  _mm512_storeu_si512(to + tile, _mm512_alignr_epi32(high, low, 6));
  _mm512_storeu_si512(to + 2 * tile, _mm512_alignr_epi32(high, low, 12));
  _mm512_storeu_si512(to + 3 * tile, _mm512_alignr_epi32(third, high, 2));
  _mm512_storeu_si512(to + 4 * tile, _mm512_alignr_epi32(third, high, 8));
  _mm512_storeu_si512(to + 5 * tile, _mm512_alignr_epi32(third, high, 14));
  _mm512_storeu_si512(to + 6 * tile, _mm512_alignr_epi32(third, third, 4));
  _mm512_storeu_si512(to + 7 * tile, _mm512_alignr_epi32(third, third, 10));
}

/// pack_tiles() of lines that cross k, each two of them as a line of pairs.
WICK_INLINE void pack_pair_tiles(const BFloat16* from, int64_t from_line, int64_t lines,
                                 int64_t rows, int64_t columns, float* to) {
  constexpr int64_t kBlock = 8 * kTileRows;
  const int64_t steps = (lines + 1) / 2;
  const bool is_block = rows == kBlock && columns > kNarrow<float>;
  for (int64_t i = 0; i < steps; ++i, from += 2 * from_line) {
    const BFloat16* const odd = 2 * i + 1 < lines ? from + from_line : nullptr;
    for (int64_t at = 0; at < rows; at += 32) {
      __builtin_prefetch(from + kAhead * from_line + at);
      __builtin_prefetch(from + (kAhead + 1) * from_line + at);
    }
    // What is too much in one line of a tile, the next lines overwrite.
    if (is_block && odd != nullptr && VecF::size <= (steps - i) * kTileRows) {
      pack_pair_block(from, odd, steps * kTileRows, to + i * kTileRows);
      continue;
    }
    for (int64_t begin = 0, size; begin < rows; begin += size) {
      size = tile_rows<float>(rows - begin, columns);
      const BFloat16* const odds = odd == nullptr ? nullptr : odd + begin;
      store_up_to(load_pairs(from + begin, odds, rows - begin), to + begin * steps + i * size,
                  size);
    }
  }
}

/// pack_columns() of `inner` elements along k.
WICK_INLINE void pack_pair_columns(const BFloat16* from, int64_t row, int64_t column, int64_t inner,
                                   int64_t width, float* to) {
  constexpr int64_t kLanes = VecF::size, kRow = kTileColumns<float>;
  if (column == 1 || width == 1) {
    for (int64_t j = 0; j < width; j += 2 * kLanes) {
      const __mmask32 mask = halves_mask(width - j);
      const BFloat16* line = from + j;
      float* pairs = to + j;
      const auto store = [&](__m512i even, __m512i odd) {
        const Pairs some(even, odd);
        _mm512_storeu_si512(pairs, some.low);
        if (width - j > kLanes) _mm512_storeu_si512(pairs + kLanes, some.high);
      };
      for (int64_t k = inner; k > 1; k -= 2, line += 2 * row, pairs += kRow) {
        __builtin_prefetch(line + kAhead * row);
        __builtin_prefetch(line + (kAhead + 1) * row);
        store(_mm512_maskz_loadu_epi16(mask, line), _mm512_maskz_loadu_epi16(mask, line + row));
      }
      if (inner % 2 != 0) store(_mm512_maskz_loadu_epi16(mask, line), _mm512_setzero_si512());
    }
    return;
  }
  for (int64_t k = 0; k < inner; k += 2 * kLanes, to += kLanes * kRow) {
    const __mmask32 mask = halves_mask(inner - k);
    const int64_t steps = smaller(kLanes, (inner - k + 1) / 2);
    for (int64_t j = 0; j < width; j += kLanes) {
      VecF::Reg square[kLanes];
#pragma GCC unroll 16
      for (int64_t i = 0; i < kLanes; ++i) {
        square[i] = _mm512_setzero_ps();
        if (i >= width - j) continue;
        const BFloat16* const line = from + k + (j + i) * column;
        square[i] = _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, line));
        __builtin_prefetch(line + 4 * kLanes);
      }
      transpose_square<kLanes>(square);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kLanes; ++i) {
        if (i < steps) VecF(square[i]).store(to + i * kRow + j);
      }
    }
  }
}

#endif

}  // namespace wick::WICK_ISA
