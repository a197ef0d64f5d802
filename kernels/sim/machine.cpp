#include "wick/kernels/sim/machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "wick/core/base/check.h"
#include "wick/core/base/profiling.h"
#include "wick/kernels/cuda/common/check.h"
#include "wick/kernels/sim/block.h"

namespace wick::sim {

namespace {

constexpr size_t kLongestQueue = 4096;               // then the oldest work is run, to bound memory
constexpr std::chrono::microseconds kPatience{100};  // with work that is not ready

constexpr double kQueryMilliseconds = 1e-3;  // for the host, where GPUs have a speed

thread_local cudaError_t last_error = cudaSuccess;
thread_local int thread_device = 0;

int64_t number_from_environment(const char* name, int64_t otherwise, int64_t most) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const int64_t value = std::strtoll(text, &end, 10);
  WICK_CHECK(end != text && *end == 0 && value >= 0 && value <= most, name, ": bad value: got \"",
             text, "\", expected a number from 0 to ", most);
  return value;
}

template <class Value, size_t kCount>
Value choice_from_environment(const char* name, const char* const (&words)[kCount]) {
  const char* text = std::getenv(name);
  if (text == nullptr) return Value{};
  for (size_t i = 0; i < kCount; ++i) {
    if (std::strcmp(text, words[i]) == 0) return static_cast<Value>(i);
  }
  std::string expected;
  for (const char* word : words) expected += concat(expected.empty() ? "" : ", ", word);
  detail::fail(name, ": unknown value: got \"", text, "\", expected one of ", expected);
}

Settings settings_from_environment() {
  Settings s;
  s.threads = choice_from_environment<ThreadOrder>("WICK_SIM_ORDER",
                                                   {"forward", "reverse", "random", "ahead"});
  s.streams = choice_from_environment<StreamOrder>("WICK_SIM_STREAMS", {"lazy", "random", "eager"});
  s.seed = uint64_t(number_from_environment("WICK_SIM_SEED", 1, INT64_MAX));
  return s;
}

/// Runs `work`, and deletes it, as the stream, as far as ThreadSanitizer is concerned: it watches
/// what kernels do, and what other work says of itself by note_read and note_write.
std::string run_as(SimulatedStream& stream, std::unique_ptr<SimulatedWork> work) {
  const Identity host = current_identity();
  become(stream.identity);
  acquire(work->token.get());
  ignore();
  std::string failure = work->run();
  work.reset();
  watch();
  release(&stream.end_token);
  become(host);
  return failure;
}

}  // namespace

Machine::Machine() : settings(settings_from_environment()), random(settings.seed, 0) {
  const int64_t count = number_from_environment("WICK_SIM_DEVICES", 1, 16);
  const int64_t mib = number_from_environment("WICK_SIM_MEMORY", 4096, 1 << 20);
  multiprocessors =
      int(std::max<int64_t>(1, number_from_environment("WICK_SIM_MULTIPROCESSORS", 132, 1024)));
  fail_countdown = number_from_environment("WICK_SIM_BREAK", 0, INT64_MAX);
  fail_error = cudaErrorIllegalAddress;
  for (int i = 0; i < count; ++i) {
    auto device = std::make_unique<SimulatedDevice>();
    device->capacity = size_t(mib) << 20;
    device->default_stream.device = i;
    devices.push_back(std::move(device));
  }
}

Machine& machine() {
  static auto* const instance = new Machine;  // lives on: tensors may outlive static objects
  return *instance;
}

int& current_device() { return thread_device; }

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

SimulatedStream* Machine::find(cudaStream_t stream) {
  if (stream == nullptr) return &devices[size_t(thread_device)]->default_stream;
  for (const auto& s : streams) {
    if (s.get() == stream) return s->alive ? stream : nullptr;
  }
  return nullptr;
}

std::vector<SimulatedStream*> Machine::all_streams(int device) {
  std::vector<SimulatedStream*> all;
  for (size_t d = 0; d < devices.size(); ++d) {
    if (device < 0 || device == int(d)) all.push_back(&devices[d]->default_stream);
  }
  for (const auto& s : streams) {
    if (s->alive && (device < 0 || device == s->device)) all.push_back(s.get());
  }
  return all;
}

void Machine::add(SimulatedStream& stream, SimulatedWork work) {
  if (stream.capture == nullptr) return queue(stream, std::move(work));
  stream.capture->work.push_back(std::move(work));
  ++stream.captured;
}

void Machine::queue(SimulatedStream& stream, SimulatedWork work) {
  // Made now, not when the work runs: what the host does in between is not ordered before it.
  if (stream.identity == nullptr) stream.identity = make_identity();
  if (work.token == nullptr) work.token = std::make_shared<char>();
  work.queued_at = host_milliseconds;
  work.note.correlation = last_call();
  auto kept = std::make_unique<SimulatedWork>(std::move(work));
  release(kept->token.get());
  stream.queue.push_back(std::move(kept));
  ++stream.queued;
  const bool is_long = stream.queue.size() > kLongestQueue;
  const uint64_t position = settings.streams == StreamOrder::kEager ? stream.queued
                            : is_long ? stream.queued - kLongestQueue / 2
                                      : 0;
  while (stream.done < position && try_one(stream)) {
  }
}

void Machine::run_until(SimulatedStream& stream, uint64_t position) {
  while (stream.done < position && !stream.queue.empty()) {
    if (try_one(stream)) continue;
    mutex.unlock();
    std::this_thread::sleep_for(kPatience);
    mutex.lock();
  }
}

bool Machine::try_one(SimulatedStream& stream) {
  if (stream.queue.empty()) return false;
  const SimulatedWork& next = *stream.queue.front();
  if (next.stream != nullptr) {
    while (next.stream->done < next.position) {
      if (!try_one(*next.stream)) return false;
    }
  }
  SimulatedDevice& device = *devices[size_t(stream.device)];
  if (device.broken == cudaSuccess && next.is_ready && !next.is_ready()) return false;
  std::unique_ptr<SimulatedWork> work = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.milliseconds = std::max(stream.milliseconds, work->queued_at);
  if (device.broken == cudaSuccess || work->always) {
    const double begin = stream.milliseconds;
    const char* const name = work->name;
    const WorkNote note = work->note;
    const double end = begin + work->milliseconds;
    const std::string failure = run_as(stream, std::move(work));
    stream.milliseconds = end;
    if (failure.empty()) {
      note_work(name, note, stream, begin, end);
    } else {
      last_failure = failure;
      device.broken = cudaErrorLaunchFailure;
    }
  }
  ++stream.done;
  return true;
}

bool Machine::has_reached(const SimulatedEvent& event) {
  SimulatedStream& stream = *event.stream;
  if (!engines.empty()) {  // GPUs that have a speed do not wait to be waited for
    while (stream.done < event.position && try_one(stream)) {
    }
    host_milliseconds += kQueryMilliseconds;
  }
  return stream.done >= event.position &&
         (engines.empty() || *event.milliseconds <= host_milliseconds);
}

void Machine::run_some() {
  const std::vector<SimulatedStream*> all = all_streams(-1);
  for (uint32_t times = random.below(4); times > 0; --times) {
    try_one(*all[random.below(uint32_t(all.size()))]);
  }
}

const SimulatedMemory* Machine::find_memory(const void* pointer, size_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto after = memory.upper_bound(address);
  if (after == memory.begin()) return nullptr;
  --after;
  const SimulatedMemory& first = after->second;
  uintptr_t end = after->first + first.bytes;
  for (++after; first.mapped && end < address + bytes; ++after) {
    if (after == memory.end() || after->first != end || !after->second.mapped) break;
    end += after->second.bytes;
  }
  return address + bytes <= end ? &first : nullptr;
}

Settings settings() {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  return machine().settings;
}

void set_settings(const Settings& settings) {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  machine().settings = settings;
  machine().random = PhiloxStream(settings.seed, 0);
}

void fail_call(int64_t nth, cudaError_t error, const std::string& name) {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  machine().fail_countdown = nth;
  machine().fail_error = error;
  machine().fail_name = name;
}

int64_t calls_until_failure() {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  return machine().fail_countdown;
}

std::string failed_call() {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  return machine().failed_call;
}

void fail_malloc_from(int64_t nth) {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  machine().malloc_countdown = nth;
}

int64_t calls() {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  return machine().calls;
}

int64_t take_largest_grid() {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  return std::exchange(machine().largest_grid, 0);
}

int64_t waits() {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  return machine().waits;
}

void reset() {
  Machine& m = machine();
  const std::lock_guard<std::recursive_mutex> lock(m.mutex);
  m.fail_countdown = 0;
  last_error = cudaSuccess;
  m.last_failure.clear();
  for (SimulatedStream* s : m.all_streams(-1)) {
    if (m.devices[size_t(s->device)]->broken != cudaSuccess) m.run_until(*s, s->queued);
  }
  for (const auto& d : m.devices) d->broken = cudaSuccess;
}

std::string last_failure() {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  return machine().last_failure;
}

void set_blocks(std::vector<uint64_t> blocks) {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  machine().blocks = std::move(blocks);
}

void set_engines(std::vector<Engine> engines) {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  machine().engines = std::move(engines);
}

std::vector<Engine> engines() {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  return machine().engines;
}

void count_run(const std::string& name) {
  const std::lock_guard<std::recursive_mutex> lock(machine().mutex);
  for (Engine& engine : machine().engines) {
    if (engine.name != name) continue;
    ++engine.runs;
    machine().host_milliseconds += engine.host_milliseconds;
  }
}

cudaError_t enter_call(const char* name) {
  Machine& m = machine();
  const std::lock_guard<std::recursive_mutex> lock(m.mutex);
  ++m.calls;
  note_call();
  if (m.settings.streams == StreamOrder::kRandom) m.run_some();
  if (m.fail_countdown > 0 && std::strstr(name, m.fail_name.c_str()) != nullptr &&
      --m.fail_countdown == 0) {
    m.failed_call = name;
    if (cuda::breaks_device(m.fail_error)) {
      m.devices[size_t(thread_device)]->broken = m.fail_error;
    }
    return report(m.fail_error);
  }
  return m.devices.empty() ? cudaSuccess : report(m.devices[size_t(thread_device)]->broken);
}

cudaError_t enqueue(const char* name, cudaStream_t stream, std::function<void()> work,
                    double milliseconds, std::function<bool()> is_ready) {
  const profile::KernelScope scope(name, cuda_device(thread_device), stream);
  WICK_SIM_ENTER(name);
  SimulatedStream* s = m.find(stream);
  if (s == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (s->capture != nullptr && is_ready) {
    return report(invalidate(*s, cudaErrorStreamCaptureUnsupported));
  }
  m.add(*s, {.name = name,
             .run =
                 [work = std::move(work)] {
                   try {
                     work();
                   } catch (const std::exception& e) {
                     return std::string(e.what());
                   }
                   return std::string();
                 },
             .is_ready = std::move(is_ready),
             .milliseconds = milliseconds,
             .note = {.kind = WorkNote::kKernel}});
  return report(m.devices[size_t(s->device)]->broken);
}

void run_what_is_ready(cudaStream_t stream) {
  Machine& m = machine();
  const std::lock_guard<std::recursive_mutex> lock(m.mutex);
  SimulatedStream* s = m.find(stream);
  while (s != nullptr && m.try_one(*s)) {
  }
}

cudaError_t launch(const char* name, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                   std::function<void()> thread) {
  WICK_SIM_ENTER(name);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool fits = threads >= 1 && threads <= 1024 && block.z <= 64 && grid.x >= 1 &&
                    grid.x <= 0x7fffffffu && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 &&
                    grid.z <= 65535 && shared <= (size_t{227} << 10);
  if (!fits) return report(cudaErrorInvalidConfiguration);
  SimulatedStream* s = m.find(stream);
  if (s == nullptr || s->device != thread_device) return report(cudaErrorInvalidResourceHandle);
  m.largest_grid = std::max(m.largest_grid, int64_t{grid.x} * grid.y * grid.z);
  m.add(*s, {.name = name,
             .run =
                 [&m, kernel = Kernel{name, grid, block, shared, std::move(thread)}] {
                   return run_kernel(kernel, m.settings, m.blocks);
                 },
             .note = {.kind = WorkNote::kKernel, .grid = grid, .block = block, .shared = shared}});
  return report(m.devices[size_t(s->device)]->broken);
}

}  // namespace wick::sim

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorECCUncorrectable: return "cudaErrorECCUncorrectable";
    case cudaErrorNvlinkUncorrectable: return "cudaErrorNvlinkUncorrectable";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchTimeout: return "cudaErrorLaunchTimeout";
    case cudaErrorAssert: return "cudaErrorAssert";
    case cudaErrorHardwareStackError: return "cudaErrorHardwareStackError";
    case cudaErrorIllegalInstruction: return "cudaErrorIllegalInstruction";
    case cudaErrorMisalignedAddress: return "cudaErrorMisalignedAddress";
    case cudaErrorInvalidAddressSpace: return "cudaErrorInvalidAddressSpace";
    case cudaErrorInvalidPc: return "cudaErrorInvalidPc";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnmatched: return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureImplicit: return "cudaErrorStreamCaptureImplicit";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
    case cudaErrorStreamCaptureWrongThread: return "cudaErrorStreamCaptureWrongThread";
    case cudaErrorUnknown: break;
  }
  return "cudaErrorUnknown";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorNotSupported: return "a simulated GPU has no speed to measure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default: return cudaGetErrorName(error);
  }
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = wick::sim::last_error;
  wick::sim::last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return wick::sim::last_error; }
