#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "wick/core/base/macros.h"

namespace wick {

enum class DeviceType : uint8_t { kCpu, kCuda };

/// A processor that holds tensors and computes: the CPU, or one GPU.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int16_t index = 0;

  WICK_INLINE bool is_cpu() const { return type == DeviceType::kCpu; }    // the host
  WICK_INLINE bool is_cuda() const { return type == DeviceType::kCuda; }  // a GPU
  friend WICK_INLINE bool operator==(Device a, Device b) {
    return a.type == b.type && a.index == b.index;
  }
};

inline constexpr Device kCpu{DeviceType::kCpu, 0};
/// GPU number `index`.
WICK_INLINE constexpr Device cuda_device(int index = 0) {
  return {DeviceType::kCuda, static_cast<int16_t>(index)};
}

/// "cpu", "cuda:1"
std::string to_string(Device device);
std::ostream& operator<<(std::ostream& out, Device device);

/// The device that "cpu", "cuda" or "cuda:N" names; an error for any other text.
Device parse_device(const std::string& text);

/// An ordered queue of work on one device. The CPU's one stream runs work at once.
struct Stream {
  Device device;
  void* handle = nullptr;  // cudaStream_t on a GPU
  friend bool operator==(const Stream& a, const Stream& b) {
    return a.device == b.device && a.handle == b.handle;
  }
};

/// Most GPUs of one process.
inline constexpr int kMaxGpus = 64;

/// The stream on which this thread's kernels for `device` run: the device's default stream unless a
/// StreamGuard (wick/core/stream.h) chose another.
Stream current_stream(Device device);
/// Makes `stream` this thread's current one of its device. Prefer a StreamGuard.
void set_current_stream(Stream stream);

}  // namespace wick
