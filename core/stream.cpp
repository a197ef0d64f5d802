#include "wick/core/stream.h"

#include <atomic>
#include <chrono>
#include <cstdio>

#include "wick/core/base/check.h"
#include "wick/core/detail/capture.h"
#include "wick/core/profile/span.h"
#include "wick/kernels/declare.h"
#ifdef WICK_HAS_CUDA
#include "wick/core/cuda/runtime.h"
#endif

namespace wick {

namespace {

std::atomic<int64_t> synchronizations = 0, nanoseconds_waited = 0;
std::atomic<SyncDebugMode> debug_mode = SyncDebugMode::kDefault;

void judge_wait(Device device) {
  const SyncDebugMode mode = debug_mode.load(std::memory_order_relaxed);
  const char* op = detail::current_op();
  if (mode == SyncDebugMode::kDefault || *op == 0) return;
  WICK_CHECK(mode == SyncDebugMode::kWarn, op, ": the host would wait for ", device,
             ": got sync_debug_mode error, expected no such wait");
  std::fprintf(stderr, "wick: %s: the host waits for %s\n", op, to_string(device).c_str());
}

// Whose wait it is.
const char* waiting_op() {
  const char* op = detail::current_op();
  return *op == 0 ? "synchronize" : op;
}

// Counts a wait for `device`, and how long it lasts.
class CountedWait {
 public:
  explicit CountedWait(Device device)
      : begin_(std::chrono::steady_clock::now()), span_(profile::EventKind::kSynchronization, "") {
    if (span_) span_.rename(concat("synchronize (", waiting_op(), ")"));
    refuse_in_capture(device, "wait for the GPU, as item() and copies to the CPU do");
    judge_wait(device);
    ++synchronizations;
  }
  ~CountedWait() {
    const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - begin_;
    nanoseconds_waited += waited.count();
  }
  CountedWait(const CountedWait&) = delete;
  CountedWait& operator=(const CountedWait&) = delete;

 private:
  std::chrono::steady_clock::time_point begin_;
  profile::Span span_;
};

}  // namespace

int cuda_device_count() {
#ifdef WICK_HAS_CUDA
  return cuda::device_count();
#else
  return 0;
#endif
}

bool cuda_is_available() { return cuda_device_count() > 0; }

std::string why_no_cuda() {
#ifdef WICK_HAS_CUDA
  return cuda::why_no_device();
#else
  return "this build has no GPU support (WICK_GPU=off)";
#endif
}

DeviceProperties device_properties(Device device) {
  WICK_CHECK(device.is_cuda(), "device_properties: got ", device, ", expected a GPU");
  DeviceProperties result;
  WICK_CALL_CUDA_INTO(result, properties(device));
  return result;
}

Stream stream_from_pool(Device device, [[maybe_unused]] bool high_priority) {
  Stream stream{device, nullptr};
  if (device.is_cuda()) WICK_CALL_CUDA_INTO(stream, stream_from_pool(device, high_priority));
  return stream;
}

void synchronize(Stream stream) {
  if (stream.device.is_cpu()) return;
  const CountedWait wait(stream.device);
  WICK_CALL_CUDA(synchronize(stream));
}

void synchronize(Device device) {
  if (device.is_cpu()) return;
  const CountedWait wait(device);
  WICK_CALL_CUDA(synchronize(device));
}

void set_sync_debug_mode(SyncDebugMode mode) { debug_mode = mode; }
SyncDebugMode sync_debug_mode() { return debug_mode; }

int64_t synchronization_count() { return synchronizations; }

double synchronization_seconds() { return 1e-9 * static_cast<double>(nanoseconds_waited); }

DeviceGuard::DeviceGuard(Device device) {
  if (device.is_cpu()) return;
  WICK_CALL_CUDA_INTO(before_, enter(device));
}

DeviceGuard::~DeviceGuard() {
#ifdef WICK_HAS_CUDA
  if (before_ >= 0) cuda::go_back(before_);
#endif
}

Event::Event(Device device, [[maybe_unused]] bool timing) : device_(device) {
  if (device.is_cuda()) WICK_CALL_CUDA_INTO(handle_, new_event(device, timing));
}

Event::~Event() {
#ifdef WICK_HAS_CUDA
  if (handle_ != nullptr) cuda::delete_event(device_, handle_);
#endif
}

void Event::record(Stream stream) {
  WICK_CHECK(stream.device == device_, "event: recorded on a stream of another device: got ",
             stream.device, ", expected ", device_);
  if (handle_ != nullptr) WICK_CALL_CUDA(record_event(handle_, stream));
}

void Event::block(Stream stream) const {
  if (handle_ != nullptr && stream.device.is_cuda()) {
    WICK_CALL_CUDA(block_on_event(stream, handle_));
  } else {
    synchronize();
  }
}

bool Event::query() const {
  bool done = true;
  if (handle_ != nullptr) WICK_CALL_CUDA_INTO(done, event_done(handle_));
  return done;
}

void Event::synchronize() const {
  if (handle_ == nullptr) return;
  const CountedWait wait(device_);
  WICK_CALL_CUDA(wait_for_event(handle_));
}

double Event::elapsed_ms(const Event& end) const {
  WICK_CHECK(handle_ != nullptr && end.handle_ != nullptr,
             "event: elapsed_ms needs two events of a GPU");
  double ms = 0;
  WICK_CALL_CUDA_INTO(ms, elapsed_ms(handle_, end.handle_));
  return ms;
}

}  // namespace wick
