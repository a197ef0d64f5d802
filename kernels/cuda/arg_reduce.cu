#include "wick/kernels/axis_split.h"
#include "wick/kernels/cuda/common/columns.h"
#include "wick/kernels/cuda/common/rows.h"
#include "wick/kernels/reduce.h"

namespace wick::cuda {

namespace {

/// Elements that make a piece of a long row or column.
constexpr int64_t kPiece = 8192;

struct Earlier {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};

/// Finds the first best of the elements it is shown, whose indices ascend. NaN is best.
template <class V, bool kLargest>
struct Best {
  V value = 0;
  int64_t index = INT64_MAX;  // none yet

  __device__ void add(V v, int64_t i) {
    const bool beats = value == value && ((kLargest ? v > value : v < value) || v != v);
    if (index != INT64_MAX && !beats) return;
    value = v;
    index = i;
  }
  /// The better value; its index follows when all have agreed on it.
  __device__ V value_or(V otherwise) const { return index == INT64_MAX ? otherwise : value; }
  __device__ int64_t index_if(V best) const {
    return value == best || (value != value && best != best) ? index : INT64_MAX;
  }
};

template <bool kLargest>
struct Better {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return (kLargest ? a > b : a < b) || a != a ? a : b;
  }
};

template <class V, bool kLargest>
__device__ V worst() {
  if constexpr (__is_same(V, int64_t)) {
    return kLargest ? INT64_MIN : INT64_MAX;
  } else {
    return static_cast<V>(kLargest ? -__builtin_inf() : __builtin_inf());
  }
}

/// Where the results of pieces go: of element `i` of y, `count` pieces of `size` elements.
struct Pieces {
  int64_t count, size;
  int64_t* index;  // [numel of y, count]
};

template <class T, bool kLargest>
__global__ void __launch_bounds__(kRowThreads)
    arg_rows_kernel(const T* x, int64_t size, Pieces pieces, RowTiling tiling) {
  using V = Accumulator<T>;
  for (RowLoop loop(tiling); loop.any(); loop.next()) {
    Best<V, kLargest> best;
    if (loop.valid()) {
      const int64_t begin = loop.row() % pieces.count * pieces.size;
      const int64_t end = begin + pieces.size < size ? begin + pieces.size : size;
      const T* row = x + loop.row() / pieces.count * size;
      const int64_t shift =
          static_cast<int64_t>(reinterpret_cast<uintptr_t>(row + begin) % 16 / sizeof(T));
      const int64_t step = int64_t{tiling.lanes} * kPackSize<T>;
      for (int64_t i = begin + loop.lane() * kPackSize<T> - shift; i < end; i += step) {
        const RowPack<T> v = load_in_row(row, end, i, T{}).unpack();
        for (int j = 0; j < kPackSize<T>; ++j) {
          if (i + j >= begin && i + j < end) best.add(convert<V>(v[j]), i + j);
        }
      }
    }
    const V lowest = worst<V, kLargest>();
    const V common = row_reduce(best.value_or(lowest), tiling.lanes, Better<kLargest>{}, lowest);
    const int64_t index =
        row_reduce(best.index_if(common), tiling.lanes, Earlier{}, int64_t{INT64_MAX});
    if (loop.leads()) pieces.index[loop.row()] = index;
  }
}

/// The outer parts of `tiling` are those of x times the pieces.
template <class T, bool kLargest>
__global__ void __launch_bounds__(kColumnThreads)
    arg_columns_kernel(const T* x, int64_t size, Pieces pieces, ColumnTiling tiling) {
  using V = Accumulator<T>;
  const int step = kColumnThreads / tiling.width;
  const int own_row = static_cast<int>(threadIdx.x) / tiling.width;
  for (ColumnLoop loop(tiling); loop.any(); loop.next()) {
    const int64_t outer = loop.outer() / pieces.count, piece = loop.outer() % pieces.count;
    Best<V, kLargest> best;
    if (loop.valid()) {
      const int64_t begin = piece * pieces.size;
      const int64_t end = begin + pieces.size < size ? begin + pieces.size : size;
      const T* column = x + outer * size * tiling.inner + loop.column();
      for (int64_t i = begin + own_row; i < end; i += step) {
        best.add(convert<V>(column[i * tiling.inner]), i);
      }
    }
    const V lowest = worst<V, kLargest>();
    const V common = column_reduce(best.value_or(lowest), tiling.width, Better<kLargest>{});
    const int64_t index = column_reduce(best.index_if(common), tiling.width, Earlier{});
    if (loop.valid() && own_row == 0) {
      pieces.index[(outer * tiling.inner + loop.column()) * pieces.count + piece] = index;
    }
  }
}

/// Chooses among the pieces of each element of y. tiling.size: that of the axis.
template <class T, bool kLargest>
__global__ void join_pieces_kernel(const T* x, int64_t* y, int64_t inner, Pieces pieces,
                                   RowTiling tiling) {
  using V = Accumulator<T>;
  for (RowLoop loop(tiling); loop.any(); loop.next()) {
    Best<V, kLargest> best;
    if (loop.valid()) {
      const T* column = x + loop.row() / inner * tiling.size * inner + loop.row() % inner;
      const int64_t* index = pieces.index + loop.row() * pieces.count;
      for (int64_t i = loop.lane(); i < pieces.count; i += tiling.lanes) {
        best.add(convert<V>(column[index[i] * inner]), index[i]);
      }
    }
    const V lowest = worst<V, kLargest>();
    const V common = row_reduce(best.value_or(lowest), tiling.lanes, Better<kLargest>{}, lowest);
    const int64_t index =
        row_reduce(best.index_if(common), tiling.lanes, Earlier{}, int64_t{INT64_MAX});
    if (loop.leads()) y[loop.row()] = index;
  }
}

/// Cuts long rows or columns into pieces where there are few of them, in `blocks` blocks.
Pieces cut(int64_t size, int64_t blocks, const View& y, Workspace& workspace) {
  const int64_t busy = blocks_to_fill(y.device, 4);
  const int64_t wanted = std::min(size / kPiece, (busy + blocks - 1) / blocks);
  if (wanted <= 1) return {1, size, y.as<int64_t>()};
  const int64_t each = (size + wanted - 1) / wanted, count = (size + each - 1) / each;
  void* index = workspace.allocate(static_cast<size_t>(y.numel() * count) * sizeof(int64_t));
  return {count, each, static_cast<int64_t*>(index)};
}

template <bool kLargest, class T>
void run(const T* x, const AxisSplit& s, const View& y, Workspace& workspace) {
  Pieces pieces;
  if (s.inner == 1) {
    const int64_t packs = s.size / kPackSize<T> + 1;
    int64_t lanes = 1;
    while (lanes < 256 && lanes < packs) lanes *= 2;
    const int64_t threads = std::max<int64_t>(lanes, 128);
    pieces = cut(s.size, s.outer * lanes / threads + 1, y, workspace);
    if (lanes > kWarp && lanes < threads) lanes = threads;
    const RowTiling tiling{s.outer * pieces.count, 0, static_cast<int>(lanes)};
    launch("arg_reduce", y.device, grid_of(tiling, threads), arg_rows_kernel<T, kLargest>, x,
           s.size, pieces, tiling);
  } else {
    ColumnTiling tiling = tile_columns(s.outer, s.size, s.inner);
    pieces = cut(s.size, s.outer * tiling.tiles(), y, workspace);
    tiling.outer *= pieces.count;
    launch("arg_reduce", y.device, grid_of(tiling), arg_columns_kernel<T, kLargest>, x, s.size,
           pieces, tiling);
  }
  if (pieces.count == 1) return;
  const RowTiling tiling{y.numel(), s.size, kWarp};
  launch("arg_reduce", y.device, grid_of(tiling, 128), join_pieces_kernel<T, kLargest>, x,
         y.as<int64_t>(), s.inner, pieces, tiling);
}

}  // namespace

void arg_reduce(const View& x, const View& y, int axis, bool largest, Workspace& workspace) {
  const AxisSplit s = split_at(x, axis);
  visit_dtype(x.dtype, [&]<class T>(Type<T>) {
    using Stored = std::conditional_t<__is_same(T, bool), uint8_t, T>;
    if (largest) {
      run<true>(x.as<const Stored>(), s, y, workspace);
    } else {
      run<false>(x.as<const Stored>(), s, y, workspace);
    }
  });
}

}  // namespace wick::cuda
