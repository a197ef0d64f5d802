#include "wick/kernels/sim/cupti.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "wick/core/base/philox.h"
#include "wick/kernels/sim/activity.h"
#include "wick/kernels/sim/machine.h"

// What stands for CUPTI. Kernels have times where a test lets engines pretend to some; else they
// have none, as records of CUPTI that could not be timed.

namespace wick::sim {

namespace {

// So that nobody takes CUPTI's clock for the host's.
constexpr uint64_t kClockAhead = 1'000'000'000'000;

uint64_t clock_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return kClockAhead + uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

using Record = std::vector<uint8_t>;

struct Cupti {
  std::mutex mutex;
  ActivitySettings settings;
  std::set<CUpti_ActivityKind> kinds;  // that are kept
  CUpti_BuffersCallbackRequestFunc requested = nullptr;
  CUpti_BuffersCallbackCompleteFunc completed = nullptr;
  std::vector<Record> pending;
  std::thread deliverer;  // which first waits for the one before
  int64_t records = 0;
  size_t dropped = 0;
  uint32_t calls = 0;
  uint64_t origin = 0;  // when the streams' clocks showed 0
  PhiloxStream random{1, 0};
};

Cupti& cupti() {
  static auto* const instance = new Cupti;
  return *instance;
}

thread_local std::vector<uint64_t> external_ids;
thread_local uint32_t last_correlation = 0;

size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy5);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel9);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return sizeof(CUpti_ActivitySynchronization);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_INVALID: break;
  }
  return 0;
}

// Without the lock: the callbacks call CUPTI.
void deliver(std::vector<Record> batch, CUpti_BuffersCallbackRequestFunc requested,
             CUpti_BuffersCallbackCompleteFunc completed) {
  size_t next = 0;
  while (next < batch.size()) {
    uint8_t* buffer = nullptr;
    size_t size = 0, most = 0, used = 0, count = 0;
    requested(&buffer, &size, &most);
    if (buffer == nullptr) {
      const std::lock_guard lock(cupti().mutex);
      cupti().dropped += batch.size() - next;
      return;
    }
    while (next < batch.size() && used + batch[next].size() <= size &&
           (most == 0 || count < most)) {
      std::memcpy(buffer + used, batch[next].data(), batch[next].size());
      used += batch[next++].size();
      ++count;
    }
    completed(nullptr, 0, buffer, size, used);
  }
}

// Takes what is pending. The lock must be held.
std::vector<Record> take_pending(Cupti& c) {
  std::vector<Record> batch = std::exchange(c.pending, {});
  for (size_t i = batch.size(); c.settings.shuffled && i > 1; --i) {
    std::swap(batch[i - 1], batch[c.random.below(uint32_t(i))]);
  }
  return batch;
}

// Keeps a record, if its kind is. The lock must be held.
template <class Activity>
void keep(Cupti& c, const Activity& activity) {
  if (!c.kinds.contains(activity.kind)) return;
  if (c.settings.drop_every > 0 && ++c.records % c.settings.drop_every == 0) {
    ++c.dropped;
    return;
  }
  Record& record = c.pending.emplace_back(sizeof activity);
  std::memcpy(record.data(), &activity, sizeof activity);
  if (c.settings.early == 0 || int64_t(c.pending.size()) < c.settings.early) return;
  c.deliverer = std::thread([before = std::move(c.deliverer), batch = take_pending(c),
                             requested = c.requested, completed = c.completed]() mutable {
    if (before.joinable()) before.join();
    deliver(std::move(batch), requested, completed);
  });
}

uint8_t memory_kind(int device) {
  return uint8_t(device >= 0    ? CUPTI_ACTIVITY_MEMORY_KIND_DEVICE
                 : device == -1 ? CUPTI_ACTIVITY_MEMORY_KIND_PINNED
                                : CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
}

uint8_t copy_kind(const WorkNote& note) {
  if (note.from_device < 0) {
    return uint8_t(note.to_device < 0 ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOH
                                      : CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  }
  return uint8_t(note.to_device < 0 ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                    : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
}

// 7 for the default stream, as CUPTI has it, and one more for each other.
uint32_t number_of(const SimulatedStream& stream) {
  const auto& all = machine().streams;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].get() == &stream) return uint32_t(8 + i);
  }
  return 7;
}

// The error that a test wants of this function.
CUptiResult enter(const char* name) {
  const std::lock_guard lock(cupti().mutex);
  return cupti().settings.failing == name ? CUPTI_ERROR_NOT_INITIALIZED : CUPTI_SUCCESS;
}

}  // namespace

void set_activity_settings(const ActivitySettings& settings) {
  const std::lock_guard lock(cupti().mutex);
  cupti().settings = settings;
}

void note_call() {
  Cupti& c = cupti();
  const std::lock_guard lock(c.mutex);
  last_correlation = c.kinds.empty() ? 0 : ++c.calls;
  if (last_correlation == 0) return;
  if (!external_ids.empty()) {
    keep(c, CUpti_ActivityExternalCorrelation{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                              CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                              external_ids.back(), last_correlation});
  }
  const uint64_t now = clock_now();
  keep(c, CUpti_ActivityAPI{CUPTI_ACTIVITY_KIND_RUNTIME, now, now, last_correlation});
}

uint32_t last_call() { return last_correlation; }

void note_wait(const SimulatedStream& stream, bool is_host) {
  Cupti& c = cupti();
  const std::lock_guard lock(c.mutex);
  if (c.kinds.empty()) return;
  CUpti_ActivitySynchronization record = {};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = is_host ? CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE
                        : CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  record.correlationId = last_correlation;
  record.contextId = uint32_t(1 + stream.device);
  record.streamId = number_of(stream);
  keep(c, record);
}

void note_work(const char* name, const WorkNote& note, const SimulatedStream& stream, double begin,
               double end) {
  Cupti& c = cupti();
  const std::lock_guard lock(c.mutex);
  if (note.kind == WorkNote::kNone || note.correlation == 0) return;
  const bool has_speed = !machine().engines.empty();
  const auto time = [&](double ms) { return has_speed ? c.origin + uint64_t(1e6 * ms) : 0; };
  const auto fill = [&](auto record, CUpti_ActivityKind kind) {
    record.kind = kind;
    record.start = time(begin);
    record.end = time(end);
    record.deviceId = uint32_t(stream.device);
    record.contextId = uint32_t(1 + stream.device);
    record.streamId = number_of(stream);
    record.correlationId = note.correlation;
    record.graphNodeId = note.graph_node;
    return record;
  };
  if (note.kind == WorkNote::kKernel) {
    auto record = fill(CUpti_ActivityKernel9{}, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    const dim3 &grid = note.grid, &block = note.block;
    std::tie(record.gridX, record.gridY, record.gridZ) = std::tuple(grid.x, grid.y, grid.z);
    std::tie(record.blockX, record.blockY, record.blockZ) = std::tuple(block.x, block.y, block.z);
    record.dynamicSharedMemory = int32_t(note.shared);
    record.name = name;
    return keep(c, record);
  }
  if (note.kind == WorkNote::kFill) {
    auto record = fill(CUpti_ActivityMemset4{}, CUPTI_ACTIVITY_KIND_MEMSET);
    record.bytes = note.bytes;
    record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    return keep(c, record);
  }
  const auto fill_copy = [&](auto record) {
    record.srcKind = memory_kind(note.from_device);
    record.dstKind = memory_kind(note.to_device);
    record.bytes = note.bytes;
    return record;
  };
  if (note.from_device >= 0 && note.to_device >= 0 && note.from_device != note.to_device) {
    auto record = fill_copy(fill(CUpti_ActivityMemcpyPtoP4{}, CUPTI_ACTIVITY_KIND_MEMCPY2));
    record.copyKind = uint8_t(CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
    return keep(c, record);
  }
  auto record = fill_copy(fill(CUpti_ActivityMemcpy5{}, CUPTI_ACTIVITY_KIND_MEMCPY));
  record.copyKind = copy_kind(note);
  record.runtimeCorrelationId = note.correlation;
  keep(c, record);
}

#define WICK_SIM_CUPTI_FUNCTION(name) \
  { #name, reinterpret_cast < void (*)()>(&name) }

void (*cupti_function(const char* name))() {
  static const std::map<std::string, void (*)()> all = {
      WICK_SIM_CUPTI_FUNCTION(cuptiGetResultString),
      WICK_SIM_CUPTI_FUNCTION(cuptiGetTimestamp),
      WICK_SIM_CUPTI_FUNCTION(cuptiActivityRegisterCallbacks),
      WICK_SIM_CUPTI_FUNCTION(cuptiActivityEnable),
      WICK_SIM_CUPTI_FUNCTION(cuptiActivityDisable),
      WICK_SIM_CUPTI_FUNCTION(cuptiActivityFlushAll),
      WICK_SIM_CUPTI_FUNCTION(cuptiActivityGetNextRecord),
      WICK_SIM_CUPTI_FUNCTION(cuptiActivityGetNumDroppedRecords),
      WICK_SIM_CUPTI_FUNCTION(cuptiActivityPushExternalCorrelationId),
      WICK_SIM_CUPTI_FUNCTION(cuptiActivityPopExternalCorrelationId)};
  const std::lock_guard lock(cupti().mutex);
  const std::string& missing = cupti().settings.missing;
  const auto found = all.find(name);
  return found == all.end() || missing == "libcupti" || missing == name ? nullptr : found->second;
}

}  // namespace wick::sim

using wick::sim::cupti;

#define WICK_SIM_CUPTI_ENTER(name) \
  if (const CUptiResult wanted = wick::sim::enter(name); wanted != CUPTI_SUCCESS) return wanted

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_NOT_INITIALIZED ? "CUPTI_ERROR_NOT_INITIALIZED" : "CUPTI_ERROR";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  WICK_SIM_CUPTI_ENTER("cuptiGetTimestamp");
  *timestamp = wick::sim::clock_now();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  WICK_SIM_CUPTI_ENTER("cuptiActivityRegisterCallbacks");
  if (requested == nullptr || completed == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(cupti().mutex);
  cupti().requested = requested;
  cupti().completed = completed;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  WICK_SIM_CUPTI_ENTER("cuptiActivityEnable");
  if (wick::sim::size_of(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  const std::lock_guard lock(cupti().mutex);
  if (cupti().requested == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  if (cupti().kinds.empty()) cupti().origin = wick::sim::clock_now();
  cupti().kinds.insert(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  WICK_SIM_CUPTI_ENTER("cuptiActivityDisable");
  const std::lock_guard lock(cupti().mutex);
  return cupti().kinds.erase(kind) == 1 ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
  WICK_SIM_CUPTI_ENTER("cuptiActivityFlushAll");
  wick::sim::Cupti& c = cupti();
  std::unique_lock lock(c.mutex);
  if (c.requested == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  std::thread deliverer = std::exchange(c.deliverer, {});
  std::vector<wick::sim::Record> batch = wick::sim::take_pending(c);
  lock.unlock();
  wick::sim::deliver(std::move(batch), c.requested, c.completed);  // beside the other
  if (deliverer.joinable()) deliverer.join();
  return CUPTI_SUCCESS;
}

// Without the lock, which would order one thread's reading behind another's.
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  uint8_t* next = buffer;
  if (*record != nullptr) {
    next = reinterpret_cast<uint8_t*>(*record) + wick::sim::size_of((*record)->kind);
  }
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  WICK_SIM_CUPTI_ENTER("cuptiActivityGetNumDroppedRecords");
  const std::lock_guard lock(cupti().mutex);
  *dropped = std::exchange(cupti().dropped, 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t id) {
  WICK_SIM_CUPTI_ENTER("cuptiActivityPushExternalCorrelationId");
  wick::sim::external_ids.push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t* last) {
  WICK_SIM_CUPTI_ENTER("cuptiActivityPopExternalCorrelationId");
  if (wick::sim::external_ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = wick::sim::external_ids.back();
  wick::sim::external_ids.pop_back();
  return CUPTI_SUCCESS;
}
