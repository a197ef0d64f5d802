#pragma once

#include "wick/kernels/cuda/common/block_reduce.h"
#include "wick/kernels/cuda/common/block_scan.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/sim/simulator.h"

// Kernels that are right, and the same with one mistake, to see that the simulator tells them
// apart.
namespace wick::testing {

/// y[b] = x[b * n] + ... + x[b * n + n - 1], n = blockDim.x, by a tree in shared memory. Without
/// one of its barriers it is wrong.
template <bool kBarrier>
__global__ void tree_sum_kernel(const float* x, float* y) {
  WICK_SHARED(float, partial, 256);
  const unsigned t = threadIdx.x, n = blockDim.x;
  partial[t] = x[int64_t{blockIdx.x} * n + t];
  __syncthreads();
  for (unsigned half = n / 2; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    if (kBarrier || half != n / 4) __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = partial[0];
}

/// Threads pass their value to the next one through global memory.
template <bool kBarrier>
__global__ void pass_on_kernel(float* exchange, float* y) {
  const unsigned t = threadIdx.x, n = blockDim.x;
  exchange[t] = static_cast<float>(t);
  if (kBarrier) __syncthreads();
  y[t] = exchange[(t + 1) % n];
}

template <class T>
__global__ void fill_with_kernel(T* y, int64_t n, T value) {
  for (int64_t i = wick::cuda::global_thread(); i < n; i += wick::cuda::global_threads()) {
    y[i] = value;
  }
}

template <class T>
__global__ void copy_plus_kernel(const T* x, T* y, int64_t n, T value) {
  for (int64_t i = wick::cuda::global_thread(); i < n; i += wick::cuda::global_threads()) {
    y[i] = x[i] + value;
  }
}

/// Two scans of a block, the second one of the first one's results.
template <class T>
__global__ void scan_twice_kernel(T* y) {
  T total = 0;
  const T once = wick::cuda::block_inclusive_sum(T{1}, total);
  y[threadIdx.x] = wick::cuda::block_inclusive_sum(once, total);
}

}  // namespace wick::testing
