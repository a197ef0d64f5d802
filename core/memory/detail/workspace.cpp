#include "wick/core/memory/detail/workspace.h"

#include "wick/core/base/check.h"

namespace wick {

void* AllocatorWorkspace::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  blocks_.push_back(make_ref<Storage>(bytes, device_));
  return blocks_.back()->data();
}

void AllocatorWorkspace::release(void* block) {
  if (block == nullptr) return;
  WICK_CHECK(!blocks_.empty() && blocks_.back()->data() == block,
             "workspace: a block was released out of order");
  blocks_.pop_back();
}

}  // namespace wick
