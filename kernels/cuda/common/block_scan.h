#pragma once

#include "wick/kernels/cuda/common/block_reduce.h"

namespace wick::cuda {

/// Every thread of the (one-dimensional, full warps, at most 1024 threads) block gets the
/// combination of `value` of itself and the threads before it; `total` becomes that of all.
/// `identity` changes nothing when combined. All must take part.
template <class T, class Combine>
__device__ T block_inclusive_scan(T value, T& total, Combine combine, T identity) {
  WICK_SHARED(T, of_warps, kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const T before = __shfl_up_sync(kAllLanes, value, distance);
    if (lane >= distance) value = combine(before, value);
  }
  if (lane == kWarp - 1) of_warps[warp] = value;
  __syncthreads();
  total = identity;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) value = combine(total, value);
    total = combine(total, of_warps[w]);
  }
  __syncthreads();  // `of_warps` may be written again
  return value;
}

template <class T>
__device__ T block_inclusive_sum(T value, T& total) {
  return block_inclusive_scan(value, total, Add{}, T{0});
}

}  // namespace wick::cuda
