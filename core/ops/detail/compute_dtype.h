#pragma once

#include "wick/core/tensor.h"
#include "wick/kernels/declare.h"

namespace wick {

/// Whether matrix products and convolutions of `dtype` on `device` convert to float32 and round the
/// result: the CPU library has no float16, and bfloat16 only with AVX-512.
inline bool computes_in_float32(Device device, Dtype dtype) {
  if (!device.is_cpu()) return false;
  return dtype == kFloat16 || (dtype == kBFloat16 && cpu_isa() != CpuIsa::kAvx512);
}

}  // namespace wick
