#pragma once

#include "wick/kernels/cuda/common/tensor_batch.h"
#include "wick/kernels/optim.h"

namespace wick::cuda {

/// Some tensors' numbers and first chunks, of which each has as many as the next one's first says.
template <int kBytes>
struct NumbersBatch {
  static constexpr int kMost = (kBytes - 24) / 12;
  double* numbers[kMost];
  uint32_t first_chunk[kMost + 1];
  int count;
  int64_t first;  // number of the first tensor

  template <class Record>
  __device__ Record& record(void* scratch, int i) const {
    return *reinterpret_cast<Record*>(static_cast<char*>(scratch) +
                                      (first + i) * kOptimRecordBytes);
  }
};

}  // namespace wick::cuda
