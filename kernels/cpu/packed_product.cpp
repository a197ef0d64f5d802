#include "wick/kernels/packed_product.h"

#include "wick/kernels/cpu/product_pack.h"

namespace wick::WICK_ISA {

namespace {

template <class T>
WICK_INLINE int64_t panels_of(int64_t columns) {
  static_assert(kPackedColumns % kTileColumns<T> == 0);
  return (columns + kTileColumns<T> - 1) / kTileColumns<T>;
}

template <class T>
void pack_panels(const View& b, const View& packed) {
  const int64_t inner = b.shape[0], columns = b.shape[1], panels = panels_of<T>(columns);
  const int64_t grain = 65536 / (inner * kTileColumns<T> + 1) + 1;
  parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t column = begin * kTileColumns<T>; column < end * kTileColumns<T>;
         column += kTileColumns<T>) {
      pack_columns(b.as<T>() + column * b.strides[1], b.strides[0], b.strides[1], inner,
                   smaller(kTileColumns<T>, columns - column), packed.as<T>() + column * inner);
    }
  });
}

template <class T>
void multiply_packed(const View& a, const View& packed, const View& y) {
  const int64_t rows = y.shape[0], columns = y.shape[1], inner = a.shape[1];
  const int64_t panels = panels_of<T>(columns), tiles = (rows + kTileRows - 1) / kTileRows;
  const int64_t grain = 262144 / (inner * kTileColumns<T> * kTileRows + 1) + 1;
  parallel_for(panels * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i / tiles * kTileColumns<T>, tile = i % tiles;
      const int64_t first = rows * tile / tiles, last = rows * (tile + 1) / tiles;
      multiply_tile(last - first, Tile<T>{.inner = inner,
                                          .a = a.as<T>() + first * inner,
                                          .a_row = inner,
                                          .a_step = 1,
                                          .b = packed.as<T>() + column * inner,
                                          .b_step = kTileColumns<T>,
                                          .padded = true,
                                          .c = y.as<T>() + first * columns + column,
                                          .c_row = columns,
                                          .width = smaller(kTileColumns<T>, columns - column)});
    }
  });
}

}  // namespace

void pack_matrix(const View& b, const View& packed) {
  if (b.dtype == Dtype::kFloat64) return pack_panels<double>(b, packed);
  pack_panels<float>(b, packed);
}

void packed_product(const View& a, const View& packed, const View& y) {
  if (y.dtype == Dtype::kFloat64) return multiply_packed<double>(a, packed, y);
  multiply_packed<float>(a, packed, y);
}

}  // namespace wick::WICK_ISA
