#pragma once

#include "wick/kernels/cuda/common/device_code.h"

namespace wick::cuda {

/// Every thread of the (one-dimensional, full warps, at most 1024 threads) block gets the sum of
/// `value` over itself and the threads before it; `total` becomes that over all. All must take
/// part.
template <class T>
__device__ T block_inclusive_sum(T value, T& total) {
  WICK_SHARED(T, warp_sums, kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const T before = __shfl_up_sync(kAllLanes, value, distance);
    if (lane >= distance) value += before;
  }
  if (lane == kWarp - 1) warp_sums[warp] = value;
  __syncthreads();
  total = T{0};
  for (int w = 0; w < warps; ++w) {
    if (w == warp) value += total;
    total += warp_sums[w];
  }
  __syncthreads();  // `warp_sums` may be written again
  return value;
}

}  // namespace wick::cuda
