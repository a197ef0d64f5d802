#pragma once

#include "wick/core/tensor.h"
#include "wick/kernels/conv.h"

namespace wick {

/// Whether matrix products of `dtype` on `device` convert to float32 and round the result: the CPU
/// has none of float16.
inline bool multiplies_in_float32(Device device, Dtype dtype) {
  return device.is_cpu() && dtype == kFloat16;
}

/// The same of convolutions: the CPU has bfloat16 with the instructions of AVX-512 for it.
inline bool convolves_in_float32(Device device, Dtype dtype) {
  return device.is_cpu() && !cpu::convolves(dtype);
}

}  // namespace wick
