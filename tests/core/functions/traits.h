#pragma once

#include <map>
#include <string>
#include <vector>

#include "wick/core/stream.h"
#include "wick/tests/core/functions/functions.h"

namespace wick::testing {

/// What calls of a function show of it, as docs/ops.md has it.
struct Traits {
  std::string cpu, cuda;  // dtypes; no `cuda` in a program without a GPU
  bool gradient = false;  // of floating inputs
  bool second = false;
  std::string autocast_gpu, autocast_cpu;
};

/// By name, of all overloads together: what one of them can.
std::map<std::string, Traits> traits_of(const std::vector<Function>& functions);

}  // namespace wick::testing
