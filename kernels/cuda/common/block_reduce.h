#pragma once

#include "wick/kernels/cuda/common/device_code.h"

// Combining the threads of a warp or a block. The order is fixed, so that results are the same in
// every run. All threads of the warp or block must take part.

namespace wick::cuda {

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// The larger one; NaN if either is.
struct Largest {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

/// The smaller one; NaN if either is.
struct Smallest {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

/// Every lane gets the combination of all.
template <class T, class Combine>
__device__ T warp_reduce(T value, Combine combine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

/// Every thread of the (one-dimensional, full warps, at most 1024 threads) block gets the
/// combination of all. `identity` changes nothing when combined.
template <class T, class Combine>
__device__ T block_reduce(T value, Combine combine, T identity) {
  WICK_SHARED(T, partial, kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_reduce(value, combine);
  if (warps == 1) return value;
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? partial[lane] : identity, combine);
  __syncthreads();  // `partial` may be written again
  return value;
}

template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, Add{}, T{0});
}

}  // namespace wick::cuda
