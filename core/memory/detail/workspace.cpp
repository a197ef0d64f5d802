#include "wick/core/memory/detail/workspace.h"

#include "wick/core/base/check.h"
#include "wick/core/memory/allocator.h"

namespace wick {

AllocatorWorkspace::~AllocatorWorkspace() {
  for (void* block : blocks_) allocator(device_).deallocate(block);
}

void* AllocatorWorkspace::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  blocks_.reserve(blocks_.size() + 1);
  blocks_.push_back(allocator(device_).allocate(bytes, current_stream(device_)));
  return blocks_.back();
}

void AllocatorWorkspace::release(void* block) {
  if (block == nullptr) return;
  WICK_CHECK(!blocks_.empty() && blocks_.back() == block,
             "workspace: a block was released out of order");
  blocks_.pop_back();
  allocator(device_).deallocate(block);
}

}  // namespace wick
