#pragma once

// What every file of kernels includes first: CUDA's own device code, or the simulator's.

#ifdef WICK_SIM
#include "wick/kernels/sim/device_code.h"
#else
#include <cuda_runtime.h>

/// An array in the block's shared memory.
#define WICK_SHARED(type, name, count) __shared__ type name[count]
/// The shared memory that the launch asked for, as an array.
#define WICK_DYNAMIC_SHARED(type, name)                         \
  extern __shared__ __align__(16) unsigned char wick_dynamic[]; \
  type* name = reinterpret_cast<type*>(wick_dynamic)
#endif

#include <cstdint>

namespace wick::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr int kWarp = 32;

/// This thread's place among all threads of a one-dimensional grid, and their number.
__device__ inline int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t global_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

}  // namespace wick::cuda
