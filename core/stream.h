#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "wick/core/base/device.h"

// Streams and events of GPUs. Work queued on one stream runs in its order; work of different
// streams runs in any, unless an event orders it. On the CPU work is done when a call returns, and
// everything here does nothing.
namespace wick {

/// What a GPU is.
struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int64_t total_memory = 0;  // bytes
  int multiprocessor_count = 0;
  bool simulated = false;  // runs on the host: right, and without a speed
};

/// GPUs that can be used: 0 in a build without CUDA, or without a driver or a GPU.
int cuda_device_count();
bool cuda_is_available();  // whether there is one
/// Why cuda_device_count() is 0, in one sentence; empty if it is not.
std::string why_no_cuda();
/// Error if there is no such GPU.
DeviceProperties device_properties(Device device);

/// A stream out of a pool of 32 per device and priority, in turn.
Stream stream_from_pool(Device device, bool high_priority = false);
/// Waits until all work queued on `stream`, or on all streams of `device`, is done.
void synchronize(Stream stream);
void synchronize(Device device);
/// How often this process waited for a GPU: in synchronize, item(), copies to the CPU.
int64_t synchronization_count();
/// How long its threads waited, all together.
double synchronization_seconds();

/// What happens where an operation waits for a GPU (item(), copies to the CPU): such waits keep the
/// host from queueing work ahead.
enum class SyncDebugMode : uint8_t {
  kDefault,  // nothing else
  kWarn,     // a line on stderr that names the operation
  kError,    // an error that names it, instead of the wait
};
/// Sets it for the process. synchronize(), called by the program itself, is let be. PyTorch's
/// torch.cuda.set_sync_debug_mode.
void set_sync_debug_mode(SyncDebugMode mode);
SyncDebugMode sync_debug_mode();

/// Runs this thread's work for the stream's device on it, until the guard goes out of scope.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream) : before_(current_stream(stream.device)) {
    set_current_stream(stream);
  }
  ~StreamGuard() { set_current_stream(before_); }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream before_;
};

/// Lets this thread's own calls of the CUDA runtime mean GPU `device` until the guard goes out of
/// scope, and then again the GPU they meant before. For programs with CUDA code of their own:
/// Wick's functions run where their tensors are, and leave another GPU chosen than they found.
///
/// Nothing on the CPU; error if there is no such GPU. Going back makes a context, some hundred MB
/// on a real GPU, on a GPU that this process has not used.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  [[maybe_unused]] int before_ = -1;  // -1: nothing to restore
};

/// A mark in a stream.
class Event {
 public:
  /// Belongs to `device`. With `timing`, elapsed_ms works, and marks cost a little more.
  explicit Event(Device device, bool timing = false);
  ~Event();
  Event(Event&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }

  /// Moves the mark behind all work queued on `stream` so far.
  void record(Stream stream);
  void record() { record(current_stream(device_)); }
  /// What is queued on `stream` from now on runs after the mark. The host does not wait.
  void block(Stream stream) const;
  /// Whether all work before the mark is done.
  bool query() const;
  /// Waits until it is.
  void synchronize() const;
  /// Milliseconds from this mark to `end`, both recorded and done. Error without timing, and on a
  /// simulated GPU, which has no speed.
  double elapsed_ms(const Event& end) const;

 private:
  Device device_;
  void* handle_ = nullptr;
};

}  // namespace wick
