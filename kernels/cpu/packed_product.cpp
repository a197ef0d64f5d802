#include "wick/kernels/packed_product.h"

#include "wick/kernels/cpu/rows.h"

namespace wick::WICK_ISA {

namespace {

constexpr int kTileRows = 6;                       // of a tile of results, held in registers
constexpr int64_t kTileVectors = WICK_WIDE(4, 2);  // of each of its rows

template <class T>
constexpr int64_t kTileColumns =
    kTileVectors* Vec<T>::size;  // neighbouring columns packed together

template <class T>
WICK_INLINE int64_t panels_of(int64_t columns) {
  static_assert(kPackedColumns % kTileColumns<T> == 0);
  return (columns + kTileColumns<T> - 1) / kTileColumns<T>;
}

template <class T>
void pack_panel(const View& b, int64_t first, T* to) {
  const int64_t inner = b.shape[0], left = b.shape[1] - first;
  const int64_t width = left < kTileColumns<T> ? left : kTileColumns<T>;
  const T* const from = b.as<T>() + first * b.strides[1];
  constexpr int64_t kBlock = 16;  // rows whose lines stay in the cache while columns are read
  for (int64_t begin = 0; begin < inner; begin += kBlock) {
    const int64_t end = begin + kBlock < inner ? begin + kBlock : inner;
    if (b.strides[1] == 1) {
      for (int64_t k = begin; k < end; ++k) {
        for (int64_t j = 0; j < width; ++j)
          to[k * kTileColumns<T> + j] = from[k * b.strides[0] + j];
      }
    } else {
      for (int64_t j = 0; j < width; ++j) {
        const T* const column = from + j * b.strides[1];
        for (int64_t k = begin; k < end; ++k)
          to[k * kTileColumns<T> + j] = column[k * b.strides[0]];
      }
    }
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t j = width; j < kTileColumns<T>; ++j) to[k * kTileColumns<T> + j] = 0;
    }
  }
}

// y[r, j] for `count` rows of `a` and the `width` columns of one panel.
template <class T, int count>
[[gnu::noinline]] void multiply_tile(const T* __restrict a, int64_t inner, const T* __restrict b,
                                     T* __restrict y, int64_t row, int64_t width) {
  using V = Vec<T>;
  V sums[count][kTileVectors];
  for (int r = 0; r < count; ++r) {
    for (int v = 0; v < kTileVectors; ++v) sums[r][v] = V(0);
  }
  for (int64_t k = 0; k < inner; ++k) {
    V columns[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v) columns[v] = V::load(b + v * V::size);
    b += kTileColumns<T>;
    for (int r = 0; r < count; ++r) {
      const V x(a[r * inner + k]);
      for (int v = 0; v < kTileVectors; ++v) sums[r][v] = fma(x, columns[v], sums[r][v]);
    }
  }
  for (int r = 0; r < count; ++r) {
    for (int v = 0; v < kTileVectors; ++v) {
      const int64_t left = width - v * V::size;
      if (left > 0) store_up_to(sums[r][v], y + r * row + v * V::size, left);
    }
  }
}

template <class T>
void multiply_rows(int64_t count, const T* a, int64_t inner, const T* b, T* y, int64_t row,
                   int64_t width) {
  switch (count) {
    case 1: return multiply_tile<T, 1>(a, inner, b, y, row, width);
    case 2: return multiply_tile<T, 2>(a, inner, b, y, row, width);
    case 3: return multiply_tile<T, 3>(a, inner, b, y, row, width);
    case 4: return multiply_tile<T, 4>(a, inner, b, y, row, width);
    case 5: return multiply_tile<T, 5>(a, inner, b, y, row, width);
    default: return multiply_tile<T, kTileRows>(a, inner, b, y, row, width);
  }
}

template <class T>
void pack_panels(const View& b, const View& packed) {
  const int64_t inner = b.shape[0], panels = panels_of<T>(b.shape[1]);
  const int64_t grain = 65536 / (inner * kTileColumns<T> + 1) + 1;
  parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      pack_panel(b, i * kTileColumns<T>, packed.as<T>() + i * inner * kTileColumns<T>);
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
      const int64_t panel = i / tiles, tile = i % tiles;
      const int64_t first = rows * tile / tiles, last = rows * (tile + 1) / tiles;
      const int64_t column = panel * kTileColumns<T>;
      multiply_rows(last - first, a.as<T>() + first * inner, inner, packed.as<T>() + column * inner,
                    y.as<T>() + first * columns + column, columns, columns - column);
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
