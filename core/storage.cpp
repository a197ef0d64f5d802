#include "wick/core/storage.h"

#include "wick/core/memory/allocator.h"

namespace wick {

namespace {
// Where tensors without elements point: an address is what tells them from undefined ones, and
// offsets are added to it.
alignas(64) char nothing[64];
}  // namespace

Storage::Storage(size_t bytes, Device device)
    : data_(bytes == 0 ? nothing : allocator(device).allocate(bytes, current_stream(device))),
      bytes_(bytes),
      device_(device),
      owned_(bytes != 0) {}

Storage::Storage(void* data, size_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), owned_(false), release_(std::move(release)) {}

Storage::~Storage() {
  if (owned_) allocator(device_).deallocate(data_);
  if (release_) release_();
}

}  // namespace wick
