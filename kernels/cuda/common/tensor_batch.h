#pragma once

#include "wick/core/base/view.h"
#include "wick/kernels/cuda/common/launch.h"

// One kernel for many tensors: their addresses travel in the kernel's parameters, and each block
// takes one chunk of one of them, so that a thousand small tensors cost about as much as one large.

namespace wick::cuda {

/// Some tensors, each with its elements and those of `kPointers` - 1 others like it.
template <int kPointers>
struct TensorBatch {
  static constexpr int kMost = 3840 / (8 * kPointers + 12);  // a kernel's parameters: 4 KiB
  void* pointers[kMost][kPointers];
  int64_t numel[kMost];
  uint32_t first_chunk[kMost];
  int count;
};

/// Elements `begin` to `end` of a tensor of the batch: what one block works on.
struct Piece {
  int tensor;
  int64_t begin, end;
};

/// The piece of block `chunk`, of pieces of `chunk_size` elements.
template <int kPointers>
__device__ Piece find_piece(const TensorBatch<kPointers>& batch, uint32_t chunk,
                            int64_t chunk_size) {
  int low = 0, high = batch.count;  // the tensor is in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (batch.first_chunk[middle] <= chunk) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const int64_t begin = (chunk - batch.first_chunk[low]) * chunk_size;
  const int64_t left = batch.numel[low] - begin;
  return {low, begin, begin + (left < chunk_size ? left : chunk_size)};
}

/// Calls run(batch, chunks, first) with batches of all of `count` tensors in turn, where `first` is
/// the number of the batch's first tensor. `numel(i)` is the number of elements of the i-th,
/// fill(i, pointers) sets its pointers, and it is in one batch with the one before only if
/// joins(i).
template <int kPointers, class Numel, class Fill, class Joins, class Run>
void for_each_batch(int64_t count, int64_t chunk_size, const Numel& numel, const Fill& fill,
                    const Joins& joins, const Run& run) {
  TensorBatch<kPointers> batch;
  for (int64_t i = 0; i < count;) {
    const int64_t first = i;
    int64_t chunks = 0;
    batch.count = 0;
    do {
      const int64_t n = numel(i);
      if (n > 0) {
        fill(i, batch.pointers[batch.count]);
        batch.numel[batch.count] = n;
        batch.first_chunk[batch.count] = static_cast<uint32_t>(chunks);
        chunks += (n + chunk_size - 1) / chunk_size;
        ++batch.count;
      }
      ++i;
    } while (i < count && batch.count < batch.kMost && joins(i));
    if (chunks > 0) run(batch, chunks, first);
  }
}

/// A block of 256 threads for each chunk.
inline Grid grid_of_pieces(int64_t chunks) {
  return {dim3(static_cast<unsigned>(chunks)), dim3(256)};
}

}  // namespace wick::cuda
