#pragma once

#include <vector>

#include "wick/core/base/device.h"
#include "wick/core/base/workspace.h"
#include "wick/core/storage.h"

namespace wick {

/// Scratch memory, as storages have it, given back when this goes out of scope.
class AllocatorWorkspace final : public Workspace {
 public:
  explicit AllocatorWorkspace(Device device) : device_(device) {}
  ~AllocatorWorkspace() = default;
  AllocatorWorkspace(const AllocatorWorkspace&) = delete;
  AllocatorWorkspace& operator=(const AllocatorWorkspace&) = delete;

  void* allocate(size_t bytes) override;
  void release(void* block) override;

 private:
  Device device_;
  std::vector<Ref<Storage>> blocks_;
};

}  // namespace wick
