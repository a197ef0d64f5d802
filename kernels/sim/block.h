#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "wick/kernels/sim/simulator.h"

namespace wick::sim {

/// A kernel as it was launched.
struct Kernel {
  const char* name;
  dim3 grid, block;
  size_t shared;  // dynamic shared memory in bytes
  std::function<void()> thread;
};

/// Runs the blocks `wanted`, or all if that is empty, thread by thread. Returns what went wrong, or
/// nothing.
std::string run_kernel(const Kernel& kernel, const Settings& settings,
                       const std::vector<uint64_t>& wanted);

}  // namespace wick::sim
