#pragma once

#include <cstdint>

namespace wick::sim {

/// What simulated machine code begins with; a shared object of `bytes` follows.
struct ModuleHead {
  static constexpr uint64_t kMagic = 0x316d6973'6b636977;  // "wicksim1"
  uint64_t magic = kMagic;
  uint64_t bytes = 0;
};

}  // namespace wick::sim
