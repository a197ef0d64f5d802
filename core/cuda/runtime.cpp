#include "wick/core/cuda/runtime.h"

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/detail/launch_scope.h"
#include "wick/kernels/cuda/common/check.h"
#include "wick/kernels/cuda/common/enter_device.h"

namespace wick::cuda {

namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t native(void* event) { return static_cast<cudaEvent_t>(event); }

struct Found {
  int count = 0;
  std::string why_none;
};

Found find_devices() {
  Found found;
  const cudaError_t status = cudaGetDeviceCount(&found.count);
  if (status == cudaSuccess && found.count > 0) return found;
  found.count = 0;
  (void)cudaGetLastError();  // no later call shall be blamed
  if (status == cudaErrorInsufficientDriver) {
    found.why_none = "no NVIDIA driver, or one too old for this build's CUDA";
  } else if (status == cudaErrorNoDevice || status == cudaSuccess) {
    found.why_none = "no NVIDIA GPU in this machine, or CUDA_VISIBLE_DEVICES hides it";
  } else {
    found.why_none = cudaGetErrorString(status);
  }
  return found;
}

const Found& found_devices() {
  static const Found found = find_devices();
  return found;
}

struct StreamPool {
  static constexpr size_t kSize = 32;
  // A mutex, not std::call_once: ThreadSanitizer loses count where an exception leaves that.
  std::mutex making;
  bool made = false;
  std::array<std::array<cudaStream_t, kSize>, 2> streams = {};  // by priority
  std::atomic<size_t> next[2] = {};
};

void make(StreamPool& pool) {
  int least = 0, greatest = 0;
  WICK_CUDA_CALL(cudaDeviceGetStreamPriorityRange, &least, &greatest);
  for (size_t high = 0; high < 2; ++high) {
    for (cudaStream_t& stream : pool.streams[high]) {
      if (stream != nullptr) continue;  // made by an earlier attempt, which failed at another
      WICK_CUDA_CALL(cudaStreamCreateWithPriority, &stream, cudaStreamNonBlocking,
                     high == 1 ? greatest : least);
    }
  }
  pool.made = true;
}

}  // namespace

int device_count() { return found_devices().count; }
std::string why_no_device() { return found_devices().why_none; }

DeviceProperties properties(Device device) {
  WICK_CHECK(device.index >= 0 && device.index < device_count(),
             "device_properties: no such GPU: got ", device, ", expected an index below ",
             device_count());
  cudaDeviceProp found = {};
  WICK_CUDA_CALL(cudaGetDeviceProperties, &found, device.index);
  DeviceProperties p;
  p.name = found.name;
  p.major = found.major;
  p.minor = found.minor;
  p.total_memory = static_cast<int64_t>(found.totalGlobalMem);
  p.multiprocessor_count = found.multiProcessorCount;
#ifdef WICK_SIM
  p.simulated = true;
#endif
  return p;
}

int enter(Device device) {
  int before = -1;
  WICK_CUDA_CALL(cudaGetDevice, &before);
  enter_device(device);
  return before;
}

void go_back(int index) noexcept {
  if (cudaSetDevice(index) != cudaSuccess) (void)cudaGetLastError();
}

Stream stream_from_pool(Device device, bool high_priority) {
  static std::array<StreamPool, kMaxGpus> pools;
  enter_device(device);  // also checks the index
  StreamPool& pool = pools[static_cast<size_t>(device.index)];
  {
    const std::lock_guard lock(pool.making);
    if (!pool.made) make(pool);
  }
  const size_t turn = pool.next[high_priority].fetch_add(1) % StreamPool::kSize;
  return {device, pool.streams[high_priority][turn]};
}

void synchronize(Stream stream) {
  enter_device(stream.device);
  const profile::LaunchScope scope;
  WICK_CUDA_CALL(cudaStreamSynchronize, native(stream));
}

void synchronize(Device device) {
  enter_device(device);
  WICK_CUDA_CALL(cudaDeviceSynchronize);
}

void* new_event(Device device, bool timing) {
  enter_device(device);
  cudaEvent_t event = nullptr;
  WICK_CUDA_CALL(cudaEventCreateWithFlags, &event,
                 timing ? cudaEventDefault : cudaEventDisableTiming);
  return event;
}

// Called by destructors: a failure is met again by the next checked call.
void delete_event(Device, void* event) {
  enter_any_device();  // otherwise a context is made, on the first GPU
  (void)cudaEventDestroy(native(event));
}

void record_event(void* event, Stream stream) {
  enter_device(stream.device);
  WICK_CUDA_CALL(cudaEventRecord, native(event), native(stream));
}

void block_on_event(Stream stream, void* event) {
  enter_device(stream.device);
  const profile::LaunchScope scope;
  WICK_CUDA_CALL(cudaStreamWaitEvent, native(stream), native(event), 0);
}

bool event_done(void* event) {
  enter_any_device();
  const cudaError_t status = cudaEventQuery(native(event));
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

void wait_for_event(void* event) { WICK_CUDA_CALL(cudaEventSynchronize, native(event)); }

double elapsed_ms(void* start, void* end) {
  float ms = 0;
  WICK_CUDA_CALL(cudaEventElapsedTime, &ms, native(start), native(end));
  return ms;
}

void copy_bytes(void* to, const void* from, size_t bytes, Stream stream) {
  enter_device(stream.device);
  const profile::LaunchScope scope;
  WICK_CUDA_CALL(cudaMemcpyAsync, to, from, bytes, cudaMemcpyDefault, native(stream));
}

void copy_between(void* to, Device target, const void* from, Device source, size_t bytes,
                  Stream stream) {
  enter_device(stream.device);
  const profile::LaunchScope scope;
  WICK_CUDA_CALL(cudaMemcpyPeerAsync, to, target.index, from, source.index, bytes, native(stream));
}

}  // namespace wick::cuda
