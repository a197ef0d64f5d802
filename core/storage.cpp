#include "wick/core/storage.h"

#include "wick/core/memory/allocator.h"

namespace wick {

Storage::Storage(size_t bytes, Device device)
    : data_(allocator(device).allocate(bytes, current_stream(device))),
      bytes_(bytes),
      device_(device),
      owned_(true) {}

Storage::Storage(void* data, size_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), owned_(false), release_(std::move(release)) {}

Storage::~Storage() {
  if (owned_) allocator(device_).deallocate(data_);
  if (release_) release_();
}

}  // namespace wick
