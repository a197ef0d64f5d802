#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "wick/kernels/sim/machine.h"
#include "wick/kernels/sim/memory_watch.h"

// The entry points of the CUDA runtime, on the simulated machine.

using wick::sim::current_device;
using wick::sim::Machine;
using wick::sim::report;

namespace {

constexpr size_t kDirtied = size_t{64} << 20;  // fresh memory holds NaN up to here
constexpr int kLeastPriority = 0, kGreatestPriority = -5;

void copy(void* to, const void* from, size_t bytes) {
  wick::sim::note_read(from, bytes);
  wick::sim::note_write(to, bytes);
  std::memcpy(to, from, bytes);
}

/// The host waits until `position` pieces of work of `stream` are done.
cudaError_t wait_for(Machine& m, SimulatedStream& stream, uint64_t position) {
  ++m.waits;
  m.run_until(stream, position);
  m.host_milliseconds = std::max(m.host_milliseconds, stream.milliseconds);
  wick::sim::acquire(&stream.end_token);
  return report(m.devices[size_t(stream.device)]->broken);
}

cudaError_t synchronize(Machine& m, int device) {
  for (SimulatedStream* s : m.all_streams(device)) {
    const cudaError_t error = wait_for(m, *s, s->queued);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t new_memory(Machine& m, void** pointer, size_t bytes, int device) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (memory == nullptr) return report(cudaErrorMemoryAllocation);
  std::memset(memory, 0xff, bytes < kDirtied ? bytes : kDirtied);
  m.memory.emplace(reinterpret_cast<uintptr_t>(memory), wick::sim::SimulatedMemory{bytes, device});
  *pointer = memory;
  return cudaSuccess;
}

}  // namespace

bool wick::sim::is_device_memory(const void* pointer, size_t bytes) {
  Machine& m = machine();
  const std::lock_guard<std::recursive_mutex> lock(m.mutex);
  const SimulatedMemory* memory = m.find_memory(pointer, bytes);
  return memory != nullptr && memory->device >= 0;
}

bool wick::sim::is_pinned_memory(const void* pointer, size_t bytes) {
  Machine& m = machine();
  const std::lock_guard<std::recursive_mutex> lock(m.mutex);
  const SimulatedMemory* memory = m.find_memory(pointer, bytes);
  return memory != nullptr && memory->device < 0;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  WICK_SIM_ENTER("cudaRuntimeGetVersion");
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  WICK_SIM_ENTER("cudaDriverGetVersion");
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  WICK_SIM_ENTER("cudaGetDeviceCount");
  *count = int(m.devices.size());
  return *count == 0 ? report(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  WICK_SIM_ENTER("cudaGetDevice");
  --m.calls;  // made before every other: not counted
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  WICK_SIM_ENTER("cudaSetDevice");
  if (device < 0 || device >= int(m.devices.size())) return report(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  WICK_SIM_ENTER("cudaGetDeviceProperties");
  if (device < 0 || device >= int(m.devices.size())) return report(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "simulated");
  properties->totalGlobalMem = m.devices[size_t(device)]->capacity;
  properties->major = 9;
  properties->multiProcessorCount = m.multiprocessors;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  WICK_SIM_ENTER("cudaDeviceGetAttribute");
  if (device < 0 || device >= int(m.devices.size())) return report(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 << 10; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMultiProcessorCount: *value = m.multiprocessors; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  WICK_SIM_ENTER("cudaDeviceSynchronize");
  for (SimulatedStream* s : m.all_streams(current_device())) {
    if (s->capture != nullptr) {
      return report(wick::sim::invalidate(*s, cudaErrorStreamCaptureUnsupported));
    }
  }
  return synchronize(m, current_device());
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  WICK_SIM_ENTER("cudaDeviceGetStreamPriorityRange");
  *least = kLeastPriority;
  *greatest = kGreatestPriority;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  WICK_SIM_ENTER("cudaMemGetInfo");
  const wick::sim::SimulatedDevice& device = *m.devices[size_t(current_device())];
  *total = device.capacity;
  *free = device.capacity - device.used;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  WICK_SIM_ENTER("cudaMalloc");
  if (const cudaError_t error = wick::sim::refuse_in_capture(m); error != cudaSuccess) return error;
  wick::sim::SimulatedDevice& device = *m.devices[size_t(current_device())];
  if (m.malloc_countdown == 1) return report(cudaErrorMemoryAllocation);
  if (m.malloc_countdown > 1) --m.malloc_countdown;
  if (bytes > device.capacity - device.used) return report(cudaErrorMemoryAllocation);
  const cudaError_t error = new_memory(m, pointer, bytes, current_device());
  if (error == cudaSuccess) device.used += bytes;
  return error;
}

cudaError_t cudaFree(void* pointer) {
  WICK_SIM_ENTER("cudaFree");
  if (const cudaError_t error = wick::sim::refuse_in_capture(m); error != cudaSuccess) return error;
  if (pointer == nullptr) return cudaSuccess;
  const auto found = m.memory.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == m.memory.end() || found->second.device < 0 || found->second.mapped) {
    return report(cudaErrorInvalidValue);
  }
  const cudaError_t error = synchronize(m, found->second.device);
  if (error != cudaSuccess) return error;
  m.devices[size_t(found->second.device)]->used -= found->second.bytes;
  m.memory.erase(found);
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  WICK_SIM_ENTER("cudaHostAlloc");
  if (const cudaError_t error = wick::sim::refuse_in_capture(m); error != cudaSuccess) return error;
  return new_memory(m, pointer, bytes, -1);
}

cudaError_t cudaFreeHost(void* pointer) {
  WICK_SIM_ENTER("cudaFreeHost");
  if (const cudaError_t error = wick::sim::refuse_in_capture(m); error != cudaSuccess) return error;
  if (pointer == nullptr) return cudaSuccess;
  const auto found = m.memory.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == m.memory.end() || found->second.device >= 0) return report(cudaErrorInvalidValue);
  const cudaError_t error = synchronize(m, -1);
  if (error != cudaSuccess) return error;
  m.memory.erase(found);
  std::free(pointer);
  return cudaSuccess;
}

namespace {

cudaError_t queue_copy(wick::sim::Machine& m, void* to, const void* from, size_t bytes,
                       cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  SimulatedStream* s = m.find(stream);
  if (s == nullptr) return report(cudaErrorInvalidResourceHandle);
  // A range that begins in an allocation must end in it.
  const wick::sim::SimulatedMemory* target = m.find_memory(to, 1);
  const wick::sim::SimulatedMemory* source = m.find_memory(from, 1);
  if (target != nullptr && m.find_memory(to, bytes) != target) return report(cudaErrorInvalidValue);
  if (source != nullptr && m.find_memory(from, bytes) != source) {
    return report(cudaErrorInvalidValue);
  }
  if (s->capture != nullptr && (source == nullptr || target == nullptr)) {  // pageable
    return report(wick::sim::invalidate(*s, cudaErrorStreamCaptureUnsupported));
  }
  wick::sim::WorkNote note = {.kind = wick::sim::WorkNote::kCopy, .bytes = bytes};
  note.from_device = source == nullptr ? -2 : source->device;
  note.to_device = target == nullptr ? -2 : target->device;
  if (source == nullptr) {  // pageable: the driver takes a copy before the call returns
    std::shared_ptr<char[]> staged(new char[bytes]);
    std::memcpy(staged.get(), from, bytes);
    m.add(*s, {.name = "copy",
               .run =
                   [=] {
                     copy(to, staged.get(), bytes);
                     return std::string();
                   },
               .note = note});
  } else {
    m.add(*s, {.name = "copy",
               .run =
                   [=] {
                     copy(to, from, bytes);
                     return std::string();
                   },
               .note = note});
  }
  if (target == nullptr) return wait_for(m, *s, s->queued);
  return report(m.devices[size_t(s->device)]->broken);
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  WICK_SIM_ENTER("cudaMemcpyAsync");
  const wick::sim::SimulatedMemory* target = m.find_memory(to, 1);
  const wick::sim::SimulatedMemory* source = m.find_memory(from, 1);
  const bool between = target != nullptr && source != nullptr && target->device >= 0 &&
                       source->device >= 0 && target->device != source->device;
  // What the driver maps may be reached from its own device alone.
  if (between && (target->mapped || source->mapped)) return report(cudaErrorInvalidValue);
  return queue_copy(m, to, from, bytes, stream);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  WICK_SIM_ENTER("cudaMemcpyPeerAsync");
  const wick::sim::SimulatedMemory* target = m.find_memory(to, 1);
  const wick::sim::SimulatedMemory* source = m.find_memory(from, 1);
  if (bytes > 0 && (target == nullptr || target->device != to_device || source == nullptr ||
                    source->device != from_device)) {
    return report(cudaErrorInvalidValue);
  }
  return queue_copy(m, to, from, bytes, stream);
}

cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream) {
  WICK_SIM_ENTER("cudaMemsetAsync");
  if (bytes == 0) return cudaSuccess;
  SimulatedStream* s = m.find(stream);
  if (s == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (m.find_memory(to, bytes) == nullptr) return report(cudaErrorInvalidValue);
  m.add(*s, {.name = "memset",
             .run =
                 [=] {
                   wick::sim::note_write(to, bytes);
                   std::memset(to, byte, bytes);
                   return std::string();
                 },
             .note = {.kind = wick::sim::WorkNote::kFill, .bytes = bytes}});
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  WICK_SIM_ENTER("cudaStreamCreateWithPriority");
  *stream = m.streams.emplace_back(std::make_unique<SimulatedStream>()).get();
  (*stream)->device = current_device();
  (*stream)->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  WICK_SIM_ENTER("cudaStreamDestroy");
  SimulatedStream* s = m.find(stream);
  if (s == nullptr || stream == nullptr) return report(cudaErrorInvalidResourceHandle);
  m.run_until(*s, s->queued);
  s->alive = false;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  WICK_SIM_ENTER("cudaStreamSynchronize");
  SimulatedStream* s = m.find(stream);
  if (s == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (s->capture != nullptr) {
    return report(wick::sim::invalidate(*s, cudaErrorStreamCaptureUnsupported));
  }
  wick::sim::note_wait(*s, /*is_host=*/true);
  return wait_for(m, *s, s->queued);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  WICK_SIM_ENTER("cudaStreamQuery");
  SimulatedStream* s = m.find(stream);
  if (s == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (s->capture != nullptr) {
    return report(wick::sim::invalidate(*s, cudaErrorStreamCaptureUnsupported));
  }
  if (s->done < s->queued) return cudaErrorNotReady;
  wick::sim::acquire(&s->end_token);
  return cudaSuccess;
}

namespace {

/// A wait that is captured: the graph runs its work in the order of the calls, so nothing is left
/// to order, but the stream may join the capture by it.
cudaError_t join(SimulatedStream& s, cudaStream_t handle, const SimulatedEvent& event) {
  if (event.capture == nullptr || (s.capture != nullptr && s.capture != event.capture)) {
    return wick::sim::invalidate(s, cudaErrorStreamCaptureIsolation);
  }
  if (handle == nullptr) {
    return wick::sim::invalidate(*event.stream, cudaErrorStreamCaptureImplicit);
  }
  if (s.capture == nullptr && event.stream->capture != event.capture) {
    return cudaErrorCapturedEvent;  // that capture is over
  }
  s.capture = event.capture;
  if (event.capture->origin == &s) event.stream->joined = event.position;
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  WICK_SIM_ENTER("cudaStreamWaitEvent");
  SimulatedStream* s = m.find(stream);
  if (s == nullptr || event == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (event->stream == nullptr) return cudaSuccess;
  if (s->capture != nullptr || event->capture != nullptr) return report(join(*s, stream, *event));
  const std::shared_ptr<char> token = event->token;
  m.add(*s, {.name = "wait",
             .run =
                 [token] {
                   wick::sim::acquire(token.get());
                   return std::string();
                 },
             .stream = event->stream,
             .position = event->position});
  wick::sim::note_wait(*s, /*is_host=*/false);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  WICK_SIM_ENTER("cudaLaunchHostFunc");
  SimulatedStream* s = m.find(stream);
  if (s == nullptr) return report(cudaErrorInvalidResourceHandle);
  m.add(*s, {.name = "host function", .run = [=] {
               function(argument);
               return std::string();
             }});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  WICK_SIM_ENTER("cudaEventCreateWithFlags");
  *event = new SimulatedEvent;
  (*event)->timing = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  delete event;  // whether or not it is said to fail: destructors call this once
  WICK_SIM_ENTER("cudaEventDestroy");
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  WICK_SIM_ENTER("cudaEventRecord");
  SimulatedStream* s = m.find(stream);
  if (s == nullptr || event == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (s->capture != nullptr) {
    *event = {event->timing, s, s->captured, nullptr, nullptr, s->capture};
    return cudaSuccess;
  }
  const auto token = std::make_shared<char>();
  const auto milliseconds = std::make_shared<double>();
  *event = {event->timing, s, s->queued + 1, token, milliseconds};
  m.add(*s, {.name = "record", .run = [token, milliseconds, s] {
               wick::sim::release(token.get());
               *milliseconds = s->milliseconds;
               return std::string();
             }});
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  WICK_SIM_ENTER("cudaEventQuery");
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (event->capture != nullptr) return report(cudaErrorCapturedEvent);
  if (const cudaError_t error = wick::sim::refuse_in_capture(m); error != cudaSuccess) return error;
  if (event->stream == nullptr) return cudaSuccess;
  if (!m.has_reached(*event)) return cudaErrorNotReady;
  wick::sim::acquire(event->token.get());
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  WICK_SIM_ENTER("cudaEventSynchronize");
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (event->capture != nullptr) return report(cudaErrorCapturedEvent);
  if (event->stream == nullptr) return cudaSuccess;
  ++m.waits;
  m.run_until(*event->stream, event->position);
  m.host_milliseconds = std::max(m.host_milliseconds, *event->milliseconds);
  wick::sim::acquire(event->token.get());
  return report(m.devices[size_t(event->stream->device)]->broken);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  WICK_SIM_ENTER("cudaEventElapsedTime");
  if (m.engines.empty()) return report(cudaErrorNotSupported);
  for (const SimulatedEvent* event : {start, end}) {
    if (event == nullptr || event->stream == nullptr || !event->timing) {
      return report(cudaErrorInvalidResourceHandle);
    }
    if (event->stream->done < event->position) return cudaErrorNotReady;
  }
  *milliseconds = static_cast<float>(*end->milliseconds - *start->milliseconds);
  return cudaSuccess;
}

namespace wick::sim {

static SimulatedStream* stream_of(Machine& m, int device, cudaStream_t stream) {
  return stream == nullptr ? &m.devices[size_t(device)]->default_stream : m.find(stream);
}

void show_in_order(void* pointer, size_t bytes, int device, cudaStream_t stream) {
  Machine& m = machine();
  const std::lock_guard<std::recursive_mutex> lock(m.mutex);
  SimulatedStream* s = stream_of(m, device, stream);
  if (s == nullptr) return;
  if (s->capture != nullptr) s->capture->shown.insert(pointer);
  m.add(*s, {.name = "show",
             .run =
                 [=] {
                   show(pointer, bytes);
                   note_write(pointer, std::min(bytes, kDirtied));
                   std::memset(pointer, 0xff, std::min(bytes, kDirtied));
                   return std::string();
                 },
             .always = true});
}

void hide_in_order(void* pointer, size_t bytes, int device, cudaStream_t stream) {
  Machine& m = machine();
  const std::lock_guard<std::recursive_mutex> lock(m.mutex);
  SimulatedStream* s = stream_of(m, device, stream);
  if (s == nullptr) return;
  SimulatedWork work = {.name = "hide",
                        .run =
                            [=] {
                              hide(pointer, bytes);
                              return std::string();
                            },
                        .always = true};
  // A graph hides what it shows; what was there before it goes once.
  const bool of_graph = s->capture != nullptr && s->capture->shown.contains(pointer);
  of_graph ? m.add(*s, std::move(work)) : m.queue(*s, std::move(work));
}

}  // namespace wick::sim
