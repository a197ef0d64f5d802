#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "wick/core/base/device.h"
#include "wick/core/ref.h"

namespace wick {

class CachingAllocator;

/// A piece of one device's memory that tensors share, and the count of changes made to it.
class Storage : public RefCounted {
 public:
  /// `bytes` of uninitialised memory from the device's caching allocator. Throws OutOfMemory.
  Storage(size_t bytes, Device device);
  /// `bytes` of pinned host memory.
  static Ref<Storage> pinned(size_t bytes);
  /// Memory of another owner's; `release` (may be empty) runs when the last tensor lets go of it.
  Storage(void* data, size_t bytes, Device device, std::function<void()> release);
  ~Storage() override;

  void* data() const { return data_; }     // never null for its own memory, even if it has 0 bytes
  size_t bytes() const { return bytes_; }  // as asked for, before rounding
  Device device() const { return device_; }   // the CPU for pinned memory
  bool is_pinned() const { return pinned_; }  // made by pinned()
  /// Tells the allocator that work on `stream` uses this memory: once the last tensor lets go of
  /// it, it is reused only after that work. No effect on memory of another owner's.
  void record_stream(Stream stream);

  /// Gives the memory back before the storage ends. No tensor of it may exist.
  void free_memory();

  /// Grows by one with each change in place to any tensor on this storage.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  /// Counts a change in place.
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }
  /// The version that the last change which autograd recorded led to; 0: none was. What detach()
  /// gave has a history of its own: changes `by_detached` tensors count apart from the others.
  uint64_t recorded_change(bool by_detached) const {
    return recorded_changes_[by_detached].load(std::memory_order_relaxed);
  }
  /// Notes that autograd recorded the latest change.
  void mark_recorded_change(bool by_detached) {
    recorded_changes_[by_detached].store(version(), std::memory_order_relaxed);
  }

 private:
  void* data_;
  size_t bytes_;
  Device device_;
  CachingAllocator* owner_ = nullptr;  // null: another owner's, or nothing
  bool pinned_ = false;
  std::atomic<uint64_t> version_{0};
  std::atomic<uint64_t> recorded_changes_[2] = {};
  std::function<void()> release_;
};

}  // namespace wick
