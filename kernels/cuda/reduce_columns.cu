#include "wick/kernels/cuda/common/columns.h"
#include "wick/kernels/cuda/common/vector_access.h"
#include "wick/kernels/cuda/reduce_job.h"

// Reductions that keep the innermost axis: a group is a column of memory.
namespace wick::cuda {

namespace {

constexpr int kUnrolled = 4;       // rows that a thread loads at once
constexpr int64_t kRowsEach = 32;  // about as many as make a thread worth it

template <int kCount>
struct Neighbours {};
/// Columns of a thread, of which each needs an accumulator.
template <class T>
inline constexpr int kMostNeighbours = sizeof(T) == 1 ? 4 : kPackSize<T>;

/// A thread reduces kCount neighbouring columns, moved as one pack if there are several.
template <class Op, class T, int kCount>
__global__ void __launch_bounds__(kColumnThreads, 2)
    reduce_columns_kernel(Op op, Type<T>, Neighbours<kCount>, ReduceJob job, ColumnTiling tiling) {
  using L = Accumulator<T>;
  using W = Wide<T>;
  const Groups& g = job.g;
  const int64_t rows = g.reduced.count, each = (rows + job.splits - 1) / job.splits;
  const int64_t step = kColumnThreads / tiling.width;
  const int own_row = static_cast<int>(threadIdx.x) / tiling.width;
  for (ColumnLoop loop(tiling); loop.any(); loop.next()) {
    const int64_t kept = loop.outer() / job.splits, split = loop.outer() % job.splits;
    const int64_t column = loop.column() * kCount;
    const int64_t group = kept * g.inner_size + column;
    int64_t y = 0;  // where the first column's result belongs
    W total[kCount];
    for (W& t : total) t = Op::template identity<W>();
    if (loop.valid()) {
      const T* x = static_cast<const T*>(job.x) + g.kept.x(kept) + column * g.inner_x;
      y = g.kept.y(kept) + column * g.inner_y;
      Center<L> center[kCount];
      if constexpr (Op::kUsesCenter) {
        for (int j = 0; j < kCount; ++j) center[j] = Center<L>(job.center[y + j * g.inner_y]);
      }
      const int64_t end = split * each + each < rows ? split * each + each : rows;
      for (int64_t r = split * each + own_row; r < end; r += kUnrolled * step) {
        Pack<T, kCount> v[kUnrolled];
        for (int u = 0; u < kUnrolled; ++u) {
          if (r + u * step < end) v[u] = load_pack<kCount>(x + g.reduced.x(r + u * step));
        }
        for (int j = 0; j < kCount; ++j) {
          L part = Op::template identity<L>();
          for (int u = 0; u < kUnrolled; ++u) {
            if (r + u * step < end) part = op(part, Op::map(convert<L>(v[u][j]), center[j]));
          }
          total[j] = op(total[j], static_cast<W>(part));
        }
      }
    }
    WICK_UNROLL
    for (int j = 0; j < kCount; ++j) {
      const W result = column_reduce(total[j], tiling.width, op);
      if (loop.valid() && own_row == 0) job.put(group + j, y + j * g.inner_y, split, result);
    }
  }
}

/// Whether packs of `size` neighbouring columns can be loaded.
bool columns_are_aligned(const ReduceJob& job, int size) {
  const Groups& g = job.g;
  bool aligned = reinterpret_cast<uintptr_t>(job.x) % 16 == 0;
  aligned = aligned && g.inner_x == 1 && g.inner_size % size == 0;
  for (int i = 0; i < g.kept.rank; ++i) aligned = aligned && g.kept.x_strides[i] % size == 0;
  for (int i = 0; i < g.reduced.rank; ++i) aligned = aligned && g.reduced.x_strides[i] % size == 0;
  return aligned;
}

}  // namespace

void reduce_columns(Reduction kind, Dtype dtype, ReduceJob& job, Device device,
                    Workspace& workspace) {
  const int size = size_of(dtype) == 1 ? 4 : static_cast<int>(16 / size_of(dtype));
  const bool packed = columns_are_aligned(job, size);
  const int64_t rows = job.g.reduced.count, columns = job.g.inner_size / (packed ? size : 1);
  // Several threads work on a column if it is long.
  ColumnTiling tiling = tile_columns(job.g.kept.count, rows, columns, kColumnThreads);
  while (tiling.width > kWarp && rows * tiling.width > kRowsEach * kColumnThreads) {
    tiling.width /= 2;
  }
  const int64_t most = rows * tiling.width / (kRowsEach * kColumnThreads);
  const int64_t blocks = tiling.outer * tiling.tiles();
  const int64_t wanted = blocks_to_fill(device, 4);
  if (most > 1 && blocks < wanted) {
    job.splits = std::min(most, (wanted + blocks - 1) / blocks);
    tiling.outer *= job.splits;
    job.partial = workspace.allocate(static_cast<size_t>(job.groups() * job.splits) * 8);
  }
  visit_reduced(kind, dtype, [&]<class Op, class T>(Op op, Type<T> type) {
    if (packed) {
      constexpr int kSize = kMostNeighbours<T>;
      launch("reduce", device, grid_of(tiling), reduce_columns_kernel<Op, T, kSize>, op, type,
             Neighbours<kSize>{}, job, tiling);
    } else {
      launch("reduce", device, grid_of(tiling), reduce_columns_kernel<Op, T, 1>, op, type,
             Neighbours<1>{}, job, tiling);
    }
  });
}

}  // namespace wick::cuda
