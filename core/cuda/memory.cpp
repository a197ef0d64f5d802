#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/cuda/runtime.h"
#include "wick/core/cuda/virtual_memory.h"
#include "wick/core/memory/allocator.h"
#include "wick/kernels/cuda/common/allow_in_capture.h"
#include "wick/kernels/cuda/common/check.h"
#include "wick/kernels/cuda/common/enter_device.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/memory_watch.h"
#endif

namespace wick::cuda {

namespace {

/// The events by which an allocator learns what streams have finished. They are used again and
/// again: there are as many as were ever needed at once.
class CudaEvents : public RawSource {
 public:
  ~CudaEvents() override {
    for (const auto& [event, index] : devices_) delete_event(cuda_device(index), event);
  }
  Event record_event(Stream stream) override {
    std::vector<Event>& idle = idle_[stream.device.index];
    if (idle.empty()) {
      idle.reserve(devices_.size() + 1);  // so that destroy_event cannot fail
      idle.push_back(new_event(stream.device, /*timing=*/false));
      devices_[idle.back()] = stream.device.index;
    }
    const Event event = idle.back();
    cuda::record_event(event, stream);
    idle.pop_back();
    return event;
  }
  bool event_done(Event event) override { return cuda::event_done(event); }
  void wait_event(Event event) override { wait_for_event(event); }
  void destroy_event(Event event) override { idle_[devices_[event]].push_back(event); }

 private:
  std::unordered_map<Event, int> devices_;  // of all events
  std::map<int, std::vector<Event>> idle_;  // by device
};

class DeviceSource final : public CudaEvents {
 public:
  explicit DeviceSource(int index) : device_(cuda_device(index)) {
    WICK_CHECK(index < device_count(), "allocator: no such GPU: got ", device_,
               device_count() == 0 ? ": " + why_no_device() : "");
    enter_device(device_);
    size_t free = 0;
    WICK_CUDA_CALL(cudaMemGetInfo, &free, &capacity_);
    at_first_ = static_cast<int64_t>(capacity_ - free);
  }

  Device device() const override { return device_; }
  size_t capacity() const override { return capacity_; }
  void add_others(MemoryUse& use, int64_t reserved) const override {
    enter_device(device_);
    const AllowInCapture allow;
    size_t free = 0, total = 0;
    WICK_CUDA_CALL(cudaMemGetInfo, &free, &total);
    const int64_t others = std::max<int64_t>(0, static_cast<int64_t>(total - free) - reserved);
    use.context += std::min(others, at_first_);
    use.libraries += std::max<int64_t>(0, others - at_first_);
  }

  void* allocate(size_t bytes) override {
    enter_device(device_);
    const AllowInCapture allow;
    void* pointer = nullptr;
    const cudaError_t status = cudaMalloc(&pointer, bytes);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();  // the allocator tries again, or reports it
      return nullptr;
    }
    check(status, "cudaMalloc");
    return pointer;
  }
  void deallocate(void* pointer, size_t) override {
    enter_device(device_);
    WICK_CUDA_CALL(cudaFree, pointer);
  }

  bool can_map() const override { return has_virtual_memory(device_); }
  void* reserve(size_t bytes) override {
    const AllowInCapture allow;
    return reserve_addresses(device_, bytes);
  }
  void unreserve(void* pointer, size_t bytes) override { release_addresses(pointer, bytes); }
  bool map(void* pointer, size_t bytes, size_t page) override {
    const AllowInCapture allow;
    return map_memory(device_, pointer, bytes, page);
  }
  void unmap(void* pointer, size_t bytes, size_t page) override {
    unmap_memory(device_, pointer, bytes, page);
  }

#ifdef WICK_SIM
  void show(void* pointer, size_t bytes, Stream stream) override {
    sim::show_in_order(pointer, bytes, device_.index, static_cast<cudaStream_t>(stream.handle));
  }
  void hide(void* pointer, size_t bytes, Stream stream) override {
    sim::hide_in_order(pointer, bytes, device_.index, static_cast<cudaStream_t>(stream.handle));
  }
#else
  void show(void*, size_t, Stream) override {}
  void hide(void*, size_t, Stream) override {}
#endif

 private:
  Device device_;
  size_t capacity_ = 0;
  int64_t at_first_ = 0;  // bytes in use before the allocator took any
};

/// Host memory that the driver keeps in place, so that GPUs copy to and from it by themselves.
class PinnedSource final : public CudaEvents {
 public:
  Device device() const override { return kCpu; }
  const char* kind() const override { return "pinned memory"; }
  std::string_view advice() const override { return {}; }
  size_t capacity() const override { return allocator(kCpu).capacity(); }

  void* allocate(size_t bytes) override {
    enter_any_device();
    const AllowInCapture allow;
    void* pointer = nullptr;
    const cudaError_t status = cudaHostAlloc(&pointer, bytes, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      return nullptr;
    }
    check(status, "cudaHostAlloc");
    return pointer;
  }
  void deallocate(void* pointer, size_t) override {
    enter_any_device();
    WICK_CUDA_CALL(cudaFreeHost, pointer);
  }
};

// Before the initialisers of programs, which may make tensors.
[[gnu::constructor(200)]] void register_sources() {
  register_cuda_sources(
      [](int index) -> std::unique_ptr<RawSource> { return std::make_unique<DeviceSource>(index); },
      []() -> std::unique_ptr<RawSource> { return std::make_unique<PinnedSource>(); });
}

}  // namespace

}  // namespace wick::cuda
