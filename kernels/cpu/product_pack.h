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

}  // namespace wick::WICK_ISA
