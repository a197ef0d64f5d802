#pragma once

#include <functional>

#include "wick/core/base/device.h"

namespace wick {

class Storage;

/// Who is asked for memory, before the allocator, by storages made on this thread. For the
/// library's own use.
class StorageObserver {
 public:
  /// Memory for `bytes` (more than 0), with what to call once it is free again; null to leave it to
  /// the allocator.
  virtual void* place(size_t bytes, Device device, std::function<void()>& release) = 0;
  /// A storage was made, with memory of the allocator's or without any.
  virtual void made(const Storage& storage) = 0;

 protected:
  ~StorageObserver() = default;
};

/// This thread's observer; null if there is none.
StorageObserver*& storage_observer();

}  // namespace wick
