#pragma once

#include "wick/kernels/cpu/product.h"
#include "wick/kernels/cpu/rows.h"

// How matrix products are shared among threads. Every result is summed by one thread in an order of
// its own, so any cut gives the same bits.
namespace wick::WICK_ISA {

/// How many threads so many multiplications are worth, where each has at least so many of them.
WICK_INLINE int64_t useful_threads(double multiplications, int64_t least = 65536) {
  const double useful = multiplications / static_cast<double>(least);
  return useful < num_threads() ? static_cast<int64_t>(useful) + 1 : num_threads();
}

/// The product of b's columns by a's rows, of which c is the transpose.
WICK_INLINE cpu::Product turned(const cpu::Product& p) {
  cpu::Product t = p;
  t.sizes = {p.sizes.n, p.sizes.m, p.sizes.k};
  t.a = {p.b.data, p.b.column, p.b.row};
  t.b = {p.a.data, p.a.column, p.a.row};
  t.a_step = p.b_step;
  t.b_step = p.a_step;
  return t;
}

/// A block of the results of one product.
struct Part {
  int64_t product, row, rows, column, columns;
};

/// Equal blocks of all products' results, in whole tiles.
class Parts {
 public:
  /// Blocks of at most `most_rows` by `most_columns` for `threads`. A row that a block packs costs
  /// as much as `row_packing` results, a column as much as `column_packing`. Of cuts that cost the
  /// same, the finest: a thread that is held up then holds up less. `column_cut`: the columns of a
  /// piece of a tile that a cut may leave; 0 for whole tiles.
  WICK_INLINE Parts(const cpu::Product& p, int64_t tile_rows, int64_t tile_columns,
                    int64_t most_rows, int64_t most_columns, int64_t threads, int64_t row_packing,
                    int64_t column_packing, int64_t column_cut = 0)
      : m_(p.sizes.m),
        n_(p.sizes.n),
        tile_rows_(tile_rows),
        column_cut_(column_cut > 0 ? column_cut : tile_columns) {
    const int64_t tall = (m_ + tile_rows - 1) / tile_rows,
                  wide = (n_ + column_cut_ - 1) / column_cut_;
    const int64_t least_down = (m_ + most_rows - 1) / most_rows;
    const int64_t least_across = (n_ + most_columns - 1) / most_columns;
    // Blocks to go up to: as many as threads take in turn.
    const int64_t enough = threads == 1 ? 2 : 4 * threads;
    double best = __builtin_inf();
    for (int64_t down = least_down; down <= tall; ++down) {
      for (int64_t across = least_across; across <= wide; ++across) {
        const int64_t count = p.count * down * across;
        const int64_t rows = (tall + down - 1) / down * tile_rows;
        const int64_t columns = (wide + across - 1) / across * column_cut_;
        const int64_t slower = columns % tile_columns / 4;  // as a piece of a tile computes
        const double cost = static_cast<double>((count + threads - 1) / threads) *
                            static_cast<double>(rows * (columns + slower) + row_packing * rows +
                                                column_packing * columns);
        if (cost <= best) {
          best = cost;
          down_ = down;
          across_ = across;
        }
        if (count >= enough) break;
      }
      if (p.count * down * least_across >= enough) break;
    }
    count_ = p.count * down_ * across_;
  }

  WICK_INLINE int64_t count() const { return count_; }
  WICK_INLINE Part operator[](int64_t i) const {
    const int64_t down = i / across_ % down_, across = i % across_;
    const int64_t row = cut(m_, tile_rows_, down, down_);
    const int64_t column = cut(n_, column_cut_, across, across_);
    return {i / across_ / down_, row, cut(m_, tile_rows_, down + 1, down_) - row, column,
            cut(n_, column_cut_, across + 1, across_) - column};
  }
  WICK_INLINE int64_t most_rows() const { return most(m_, tile_rows_, down_); }
  WICK_INLINE int64_t most_columns() const { return most(n_, column_cut_, across_); }

 private:
  static WICK_INLINE int64_t cut(int64_t size, int64_t tile, int64_t i, int64_t pieces) {
    return smaller(size, (size + tile - 1) / tile * i / pieces * tile);
  }
  static WICK_INLINE int64_t most(int64_t size, int64_t tile, int64_t pieces) {
    return ((size + tile - 1) / tile + pieces - 1) / pieces * tile;
  }

  int64_t m_, n_, tile_rows_, column_cut_;
  int64_t down_ = 1, across_ = 1, count_ = 0;
};

}  // namespace wick::WICK_ISA
