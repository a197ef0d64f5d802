#include "wick/core/storage.h"

#include <utility>

#include "wick/core/detail/storage_observer.h"
#include "wick/core/memory/allocator.h"

namespace wick {

namespace {
// Where tensors without elements point: an address is what tells them from undefined ones, and
// offsets are added to it.
alignas(64) char nothing[64];

thread_local StorageObserver* observer_in_force = nullptr;
}  // namespace

StorageObserver*& storage_observer() { return observer_in_force; }

Storage::Storage(size_t bytes, Device device) : data_(nothing), bytes_(bytes), device_(device) {
  StorageObserver* const observer = observer_in_force;
  if (observer != nullptr) [[unlikely]] {
    observer->made(*this);
    if (bytes == 0) return;
    if (void* placed = observer->place(bytes, device, release_)) {
      data_ = placed;
      return;
    }
  }
  if (bytes == 0) return;
  owner_ = &allocator(device);
  data_ = owner_->allocate(bytes, current_stream(device));
}

Storage::Storage(void* data, size_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

Ref<Storage> Storage::pinned(size_t bytes) {
  auto storage = make_ref<Storage>(size_t{0}, kCpu);
  storage->pinned_ = true;
  if (bytes == 0) return storage;
  storage->owner_ = &pinned_allocator();
  storage->data_ = storage->owner_->allocate(bytes, Stream{});
  storage->bytes_ = bytes;
  return storage;
}

void Storage::record_stream(Stream stream) {
  if (owner_ != nullptr) owner_->record_stream(data_, stream);
}

void Storage::free_memory() {
  void* const data = std::exchange(data_, nothing);
  if (owner_ != nullptr) std::exchange(owner_, nullptr)->deallocate(data);
  if (release_) std::exchange(release_, {})();
}

Storage::~Storage() {
  try {
    free_memory();
  } catch (...) {  // nobody is there to be told
  }
}

}  // namespace wick
