#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wick/core/base/device.h"

namespace wick::profile {

/// What a profiler records beside the operations, as bits of wanted().
inline constexpr uint32_t kRecording = 1;
inline constexpr uint32_t kWantsShapes = 2;
inline constexpr uint32_t kWantsMemory = 4;
inline constexpr uint32_t kWantsFlops = 8;
inline constexpr uint32_t kWantsModules = 16;
inline constexpr uint32_t kWantsKernels = 32;
inline constexpr uint32_t kEmitsNvtx = 64;  // EmitNvtx lives, with a profiler or without

namespace detail {
inline std::atomic<uint32_t> wanted_now{0};

/// For the allocators, with `allocated` bytes live behind the event.
void record_memory(bool is_free, const void* pointer, size_t bytes, int64_t allocated,
                   Stream stream);
void begin_kernel(const char* name, Device device, void* stream);
void end_kernel(Device device, void* stream) noexcept;
}  // namespace detail

/// What the process's profiler records now, and whether NVTX does; 0 where neither does. One load.
inline uint32_t wanted() { return detail::wanted_now.load(std::memory_order_relaxed); }

/// Around the launch of a kernel, or of a library's, on the stream that it is queued on.
class KernelScope {
 public:
  KernelScope(const char* name, Device device, void* stream)
      : device_(device), stream_(stream), is_on_((wanted() & kWantsKernels) != 0) {
    if (is_on_) detail::begin_kernel(name, device, stream);
  }
  ~KernelScope() {
    if (is_on_) detail::end_kernel(device_, stream_);
  }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  Device device_;
  void* stream_;
  bool is_on_;
};

}  // namespace wick::profile
