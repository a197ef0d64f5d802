#pragma once

#include "wick/kernels/cuda/common/device_code.h"
#include "wick/kernels/cuda/common/launch.h"

// Kernels that work on the columns of [outer, size, inner]: neighbouring threads on neighbouring
// columns, several threads of a block on the rows of one column. Drawn in rows.h.
namespace wick::cuda {

inline constexpr int kColumnThreads = 256;

/// How blocks of kColumnThreads threads are laid over columns.
struct ColumnTiling {
  int64_t outer, size, inner;
  int width;  // columns per block: a power of two

  /// Blocks' worth of columns in one of the outer parts.
  WICK_HOST_DEVICE int64_t tiles() const { return (inner + width - 1) / width; }
};

/// `most`: columns per block, a power of two.
inline ColumnTiling tile_columns(int64_t outer, int64_t size, int64_t inner, int most = kWarp) {
  int width = 1;
  while (width < most && width < inner) width *= 2;
  return {outer, size, inner, width};
}
inline Grid grid_of(const ColumnTiling& s) {
  const int64_t blocks = std::min(s.outer * s.tiles(), kMostBlocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(kColumnThreads)};
}

/// The columns of this block, like RowLoop.
class ColumnLoop {
 public:
  __device__ explicit ColumnLoop(const ColumnTiling& s) : s_(s), tile_(blockIdx.x) {}
  __device__ bool any() const { return tile_ < s_.outer * s_.tiles(); }
  __device__ void next() { tile_ += gridDim.x; }

  /// This thread's column among the inner ones; it may be beyond the last.
  __device__ int64_t column() const {
    return tile_ % s_.tiles() * s_.width + static_cast<int>(threadIdx.x) % s_.width;
  }
  __device__ bool valid() const { return column() < s_.inner; }
  __device__ int64_t outer() const { return tile_ / s_.tiles(); }
  /// The first element of the column.
  __device__ int64_t begin() const { return outer() * s_.size * s_.inner + column(); }

  /// Calls body(offset of an element, its row) for this thread's rows of its column.
  template <class Body>
  __device__ void for_rows(const Body& body) const {
    if (!valid()) return;
    const int64_t from = begin();
    const int step = kColumnThreads / s_.width;
    for (int64_t i = static_cast<int>(threadIdx.x) / s_.width; i < s_.size; i += step) {
      body(from + i * s_.inner, i);
    }
  }

 private:
  ColumnTiling s_;
  int64_t tile_;
};

/// The combination of the values of the threads x, x + width, x + 2 width, ... of a block, for each
/// of them.
template <class T, class Combine>
__device__ T column_reduce(T value, int width, Combine combine) {
  if (width == kColumnThreads) return value;
  WICK_SHARED(T, partial, kColumnThreads);
  const int thread = static_cast<int>(threadIdx.x);
  partial[thread] = value;
  __syncthreads();
  for (int distance = kColumnThreads / 2; distance >= width; distance /= 2) {
    if (thread < distance) partial[thread] = combine(partial[thread], partial[thread + distance]);
    __syncthreads();
  }
  value = partial[thread % width];
  __syncthreads();  // `partial` may be written again
  return value;
}

}  // namespace wick::cuda
