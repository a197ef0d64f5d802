#pragma once

#include "wick/core/base/view.h"
#include "wick/kernels/cuda/common/launch.h"

// One kernel for many tensors: their addresses travel in the kernel's parameters, and each block
// takes one chunk of one of them, so that a thousand small tensors cost about as much as one large.

namespace wick::cuda {

/// Bytes of a batch. A kernel's parameters may take 4 KiB, and 32,764 bytes on sm_70 and later with
/// a driver of CUDA 12.1 or later: toolkits from 13 on meet no older ones, those of 12 may. A
/// launch copies all bytes, used or not, so what fits a small batch goes in one. Simulated ones are
/// so small that a few hundred tensors need several.
inline constexpr int kSmallBatch = 3840;
#ifdef WICK_SIM
inline constexpr int kLargeBatch = 8192;
#elif CUDART_VERSION >= 13000
inline constexpr int kLargeBatch = 32512;
#else
inline constexpr int kLargeBatch = kSmallBatch;
#endif

/// Calls next(batch, first) with an empty Batch for the tensors from the `first` on, of `count`,
/// until the number that it returns, of the first tensor that is left, is `count`.
template <template <int> class Batch, class Next>
void take_batches(int64_t count, const Next& next) {
  for (int64_t i = 0; i < count;) {
    if (count - i <= Batch<kSmallBatch>::kMost) {
      Batch<kSmallBatch> batch;
      i = next(batch, i);
    } else {
      Batch<kLargeBatch> batch;
      i = next(batch, i);
    }
  }
}

/// Some tensors, each with its elements and those of `kPointers` - 1 others like it.
template <int kPointers, int kBytes>
struct TensorBatch {
  static constexpr int kMost = (kBytes - 8) / (8 * kPointers + 12);
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
template <class Batch>
__device__ Piece find_piece(const Batch& batch, uint32_t chunk, int64_t chunk_size) {
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

template <int kPointers>
struct TensorBatches {
  template <int kBytes>
  using Batch = TensorBatch<kPointers, kBytes>;
};

/// Calls run(batch, chunks, first) with batches of all of `count` tensors in turn, where `first` is
/// the number of the batch's first tensor. `numel(i)` is the number of elements of the i-th,
/// fill(i, pointers) sets its pointers, and it is in one batch with the one before only if
/// joins(i).
template <int kPointers, class Numel, class Fill, class Joins, class Run>
void for_each_batch(int64_t count, int64_t chunk_size, const Numel& numel, const Fill& fill,
                    const Joins& joins, const Run& run) {
  take_batches<TensorBatches<kPointers>::template Batch>(count, [&](auto& batch, int64_t first) {
    int64_t i = first, chunks = 0;
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
    return i;
  });
}

/// A block of 256 threads for each chunk.
inline Grid grid_of_pieces(int64_t chunks) {
  return {dim3(static_cast<unsigned>(chunks)), dim3(256)};
}

}  // namespace wick::cuda
