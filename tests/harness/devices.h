#pragma once

#include <vector>

#include "wick/core/stream.h"

namespace wick::testing {

/// The CPU, and the GPU, real or simulated, where there is one.
inline std::vector<Device> devices() {
  std::vector<Device> all = {kCpu};
  if (cuda_is_available()) all.push_back(cuda_device(0));
  return all;
}

}  // namespace wick::testing
