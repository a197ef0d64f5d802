#pragma once

#include "wick/core/tensor.h"
#include "wick/kernels/declare.h"

namespace wick {

/// Whether matrix products of `dtype` on `device` convert to float32 and round the result: the CPU
/// has none of float16.
inline bool multiplies_in_float32(Device device, Dtype dtype) {
  return device.is_cpu() && dtype == kFloat16;
}

/// The same of convolutions, whose library has bfloat16 only with AVX-512.
inline bool convolves_in_float32(Device device, Dtype dtype) {
  if (!device.is_cpu()) return false;
  return dtype == kFloat16 || (dtype == kBFloat16 && cpu_isa() != CpuIsa::kAvx512);
}

}  // namespace wick
