#pragma once

#include <cstddef>

namespace wick {

/// Where a kernel gets scratch memory whose size only the kernel knows. The op that calls the
/// kernel provides it; what was allocated lives until the workspace dies.
class Workspace {
 public:
  /// `bytes` of uninitialised memory on the kernel's device, aligned to 64 bytes; null for 0.
  virtual void* allocate(size_t bytes) = 0;
  /// Takes back early what `allocate` returned last but for blocks released since; null is allowed.
  virtual void release(void* block) = 0;

 protected:
  ~Workspace() = default;
};

}  // namespace wick
