#pragma once

// What every file of kernels includes first: CUDA's own device code, or the simulator's.

#ifdef WICK_SIM
#include "wick/kernels/sim/device_code.h"

/// Ends the kernel, and the process' use of the device, with an error that says `text`, unless the
/// condition holds: for what the host could only check by waiting, such as indices.
#define WICK_DEVICE_CHECK(condition, text) \
  if (!(condition)) ::wick::sim::trap(WICK_SIM_SITE, text)
/// Before a loop over an array that is to be in registers, where the compiler would not unroll it.
#define WICK_UNROLL
#else
#include <cuda_runtime.h>

#include <cassert>

#define WICK_DEVICE_CHECK(condition, text) \
  if (!(condition)) __assert_fail(text, __FILE__, __LINE__, __func__)
#define WICK_UNROLL _Pragma("unroll")
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
