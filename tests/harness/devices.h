#pragma once

#include <vector>

#include "wick/core/stream.h"

namespace wick::testing {

/// The first GPU.
inline constexpr Device kGpu = cuda_device(0);

/// The CPU, and the GPU, real or simulated, where there is one.
inline std::vector<Device> devices() {
  std::vector<Device> all = {kCpu};
  if (cuda_is_available()) all.push_back(kGpu);
  return all;
}

}  // namespace wick::testing
