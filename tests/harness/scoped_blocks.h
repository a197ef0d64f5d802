#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "wick/kernels/sim/simulator.h"

namespace wick::testing {

/// Runs only these blocks of every kernel, until it goes out of scope: also where a test throws.
class ScopedBlocks {
 public:
  explicit ScopedBlocks(std::vector<uint64_t> blocks) { sim::set_blocks(std::move(blocks)); }
  ~ScopedBlocks() { sim::set_blocks({}); }
  ScopedBlocks(const ScopedBlocks&) = delete;
  ScopedBlocks& operator=(const ScopedBlocks&) = delete;
};

}  // namespace wick::testing
