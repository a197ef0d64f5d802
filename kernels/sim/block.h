#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "wick/kernels/sim/simulator.h"

namespace wick::sim {

/// A kernel as it was launched.
struct Kernel {
  const char* name;
  dim3 grid, block;
  size_t shared;  // dynamic shared memory in bytes
  std::function<void()> thread;
};

/// Runs every block of the grid, thread by thread. Returns what went wrong, or nothing.
std::string run_kernel(const Kernel& kernel, const Settings& settings,
                       const std::function<bool(uint64_t)>& wanted);

}  // namespace wick::sim
