#include "wick/core/cuda/cupti.h"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "wick/core/base/check.h"
#include "wick/core/cuda/cupti_api.h"

namespace wick::cuda {

namespace {

constexpr size_t kBufferBytes = size_t{2} << 20;
constexpr int kMostBuffers = 16;        // with CUPTI at one time
constexpr int64_t kCallsPerRecord = 4;  // calls that are kept, for each activity
constexpr CUpti_ExternalCorrelationKind kOurs = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

// The calls are needed for their numbers, which tie a kernel to what was pushed.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMCPY2,
                                         CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                         CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};

void tell_once(const Error& error) {
  static std::once_flag told;
  std::call_once(told, [&] { std::fprintf(stderr, "wick: profiler: %s\n", error.what()); });
}

// The same moment on CUPTI's clock and on ours.
struct Moment {
  int64_t theirs = 0, ours = 0;
};

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Of some tries the one that took least, with our clock read before and behind.
Moment read_clocks() {
  Moment best;
  int64_t least = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const int64_t before = now();
    uint64_t theirs = 0;
    check_cupti(cupti().get_timestamp(&theirs), "cuptiGetTimestamp");
    const int64_t after = now();
    if (after - before >= least) continue;
    least = after - before;
    best = {static_cast<int64_t>(theirs), before + least / 2};
  }
  return best;
}

// From CUPTI's clock to ours, along the line between two moments: the clocks may drift apart.
class ClockMap {
 public:
  ClockMap(Moment begin, Moment end) : begin_(begin) {
    const auto theirs = static_cast<double>(end.theirs - begin.theirs);
    const auto drift = static_cast<double>(end.ours - begin.ours) - theirs;
    // Less is an error of the readings, more is what no clock does.
    if (std::abs(drift) > kLeastDrift && std::abs(drift) < kMostDrift * theirs) {
      drift_ = drift / theirs;
    }
  }
  int64_t ours(uint64_t theirs) const {
    if (theirs == 0) return 0;
    const int64_t since = static_cast<int64_t>(theirs) - begin_.theirs;
    return begin_.ours + since + static_cast<int64_t>(drift_ * static_cast<double>(since));
  }

 private:
  static constexpr double kLeastDrift = 1000;  // nanoseconds
  static constexpr double kMostDrift = 1e-3;
  const Moment begin_;
  double drift_ = 0;
};

// "softmax_kernel<float>" for "_Z14softmax_kernelIfEvT_".
std::string readable(const char* mangled) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? demangled : mangled;
  std::free(demangled);
  // The parameters: the parenthesis behind the last one that closes at the same depth.
  if (status == 0 && name.ends_with(')')) {
    int depth = 0;
    size_t at = name.size();
    do {
      --at;
      depth += name[at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
    } while (depth > 0 && at > 0);
    name.resize(at);
  }
  return name.starts_with("void ") ? name.substr(5) : name;
}

const char* memory_name(int kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE: return "Pageable";
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED: return "Pinned";
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE: return "Device";
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED: return "Managed";
    default: return "Unknown";
  }
}

const char* copy_name(int kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "DtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return "HtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return "PtoP";
    default: return "Unknown";
  }
}

// What is collected. The callbacks fill it, on threads of the program and of CUPTI.
class Collector {
 public:
  void begin(int64_t most, Moment start) {
    const std::lock_guard lock(mutex_);
    forget();
    most_ = most;
    start_ = start;
    collects_ = true;
  }

  void cancel() {
    const std::lock_guard lock(mutex_);
    forget();
  }

  Activities end(Moment stop) {
    const std::lock_guard lock(mutex_);
    const ClockMap clock(start_, stop);
    std::unordered_map<uint32_t, int> devices;  // of contexts: waits name those alone
    for (const Activity& activity : found_.all) {
      if (activity.kind != Activity::kWait) devices.emplace(activity.context, activity.device);
    }
    for (size_t i = 0; i < found_.all.size(); ++i) {
      Activity& activity = found_.all[i];
      activity.start = clock.ours(static_cast<uint64_t>(activity.start));
      if (activity.kind == Activity::kWait && devices.contains(activity.context)) {
        activity.device = devices.at(activity.context);
      }
      for (const uint32_t number : {activity.correlation, runtime_numbers_[i]}) {
        const auto call = calls_.find(number);
        if (call == calls_.end() || activity.launch != 0) continue;
        activity.launch = call->second.launch;
        activity.launched = clock.ours(call->second.time);
      }
    }
    found_.names = names_;
    Activities found = std::move(found_);
    forget();
    return found;
  }

  void add_dropped(size_t count) {
    const std::lock_guard lock(mutex_);
    found_.dropped += static_cast<int64_t>(count);
  }

  // Null where CUPTI has as many as it gets: it then drops records, and counts them.
  uint8_t* new_buffer() {
    uint8_t* buffer = nullptr;
    if (buffers_.fetch_add(1) < kMostBuffers) {
      buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
    }
    if (buffer == nullptr) --buffers_;
    return buffer;
  }

  void take_buffer(uint8_t* buffer, size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    CUpti_Activity* record = nullptr;
    while (collects_ && bytes > 0 &&
           cupti().get_next_record(buffer, bytes, &record) == CUPTI_SUCCESS) {
      try {
        read(*record);
      } catch (const std::bad_alloc&) {
        ++found_.dropped;
      }
    }
    std::free(buffer);
    --buffers_;
  }

 private:
  // A call of the runtime or the driver.
  struct Call {
    uint64_t launch = 0, time = 0;
  };

  void forget() {
    collects_ = false;
    found_ = {};
    runtime_numbers_.clear();
    calls_.clear();
    known_.clear();
    names_ = std::make_shared<std::deque<std::string>>();
  }

  void read(const CUpti_Activity& record) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& link = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
        if (link.externalKind != kOurs) return;
        Call* const call = call_of(link.correlationId);
        if (call == nullptr) {
          ++found_.dropped;  // what it queued is tied to nothing
        } else {
          call->launch = link.externalId;
        }
        return;
      }
      case CUPTI_ACTIVITY_KIND_RUNTIME:
      case CUPTI_ACTIVITY_KIND_DRIVER: {
        const auto& made = reinterpret_cast<const CUpti_ActivityAPI&>(record);
        Call* const call = call_of(made.correlationId);
        // A call of the driver within one of the runtime may have its number.
        if (call != nullptr && (call->time == 0 || made.start < call->time)) {
          call->time = made.start;
        }
        return;
      }
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return read_kernel(reinterpret_cast<const KernelRecord&>(record));
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = reinterpret_cast<const CopyRecord&>(record);
        return read_copy(copy, copy.runtimeCorrelationId);
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        return read_copy(reinterpret_cast<const PeerCopyRecord&>(record), 0);
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& fill = reinterpret_cast<const FillRecord&>(record);
        Activity activity = common(fill, Activity::kCopy);
        activity.name = keep(concat("Memset (", memory_name(fill.memoryKind), ")"));
        activity.bytes = static_cast<int64_t>(fill.bytes);
        return add(activity, 0);
      }
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        return read_wait(reinterpret_cast<const WaitRecord&>(record));
      default: return;
    }
  }

  void read_kernel(const KernelRecord& kernel) {
    Activity activity = common(kernel, Activity::kKernel);
    activity.name = kernel_name(kernel.name);
    const int32_t grid[] = {kernel.gridX, kernel.gridY, kernel.gridZ};
    const int32_t block[] = {kernel.blockX, kernel.blockY, kernel.blockZ};
    std::copy(grid, grid + 3, activity.grid);
    std::copy(block, block + 3, activity.block);
    activity.registers = kernel.registersPerThread;
    activity.shared_memory = kernel.staticSharedMemory + kernel.dynamicSharedMemory;
    add(activity, 0);
  }

  template <class Record>
  void read_copy(const Record& copy, uint32_t runtime_number) {
    Activity activity = common(copy, Activity::kCopy);
    activity.name = keep(concat("Memcpy ", copy_name(copy.copyKind), " (",
                                memory_name(copy.srcKind), " -> ", memory_name(copy.dstKind), ")"));
    activity.bytes = static_cast<int64_t>(copy.bytes);
    add(activity, runtime_number);
  }

  // A stream's wait for an event, or the host's for a stream; those for events and whole GPUs have
  // no stream to show them on.
  void read_wait(const WaitRecord& wait) {
    const bool is_host = wait.type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
    if (!is_host && wait.type != CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT) return;
    if (wait.streamId == CUPTI_SYNCHRONIZATION_INVALID_VALUE) return;
    Activity activity;
    activity.kind = Activity::kWait;
    activity.name = is_host ? "Stream Sync" : "Stream Wait Event";
    activity.context = wait.contextId;
    activity.stream = wait.streamId;
    activity.correlation = wait.correlationId;
    set_times(activity, wait.start, wait.end);
    add(activity, 0);
  }

  template <class Record>
  static Activity common(const Record& record, Activity::Kind kind) {
    Activity activity;
    activity.kind = kind;
    activity.device = static_cast<int>(record.deviceId);
    activity.context = record.contextId;
    activity.stream = record.streamId;
    activity.correlation = record.correlationId;
    activity.graph_node = record.graphNodeId;
    set_times(activity, record.start, record.end);
    return activity;
  }

  // On CUPTI's clock yet. None is known where both are 0.
  static void set_times(Activity& activity, uint64_t start, uint64_t end) {
    if (start == 0 || end < start) return;
    activity.start = static_cast<int64_t>(start);
    activity.duration = static_cast<int64_t>(end - start);
  }

  void add(const Activity& activity, uint32_t runtime_number) {
    if (static_cast<int64_t>(found_.all.size()) >= most_) {
      ++found_.dropped;
      return;
    }
    runtime_numbers_.push_back(runtime_number);
    found_.all.push_back(activity);
  }

  Call* call_of(uint32_t number) {
    const auto found = calls_.find(number);
    if (found != calls_.end()) return &found->second;
    if (static_cast<int64_t>(calls_.size()) >= kCallsPerRecord * most_) return nullptr;
    return &calls_[number];
  }

  // By what CUPTI calls it, at an address that may be another's later: the text counts.
  std::string_view kernel_name(const char* name) {
    if (name == nullptr) return "(no name)";
    const auto found = known_.find(name);
    if (found != known_.end()) return found->second;
    const std::string_view kept = names_->emplace_back(readable(name));
    return known_.emplace(name, kept).first->second;
  }
  std::string_view keep(const std::string& name) {
    const auto found = known_.find(name);
    if (found != known_.end()) return found->second;
    return known_.emplace(name, names_->emplace_back(name)).first->second;
  }

  std::mutex mutex_;
  bool collects_ = false;
  int64_t most_ = 0;
  std::atomic<int> buffers_ = 0;  // without the lock: launches wait for it
  Moment start_;
  Activities found_;
  std::vector<uint32_t> runtime_numbers_;  // of each activity another number of its call, or 0
  std::unordered_map<uint32_t, Call> calls_;
  std::unordered_map<std::string, std::string_view> known_;
  std::shared_ptr<std::deque<std::string>> names_ = std::make_shared<std::deque<std::string>>();
};

// Never destroyed: CUPTI may call until the program's end.
Collector& collector() {
  static auto* const instance = new Collector;
  return *instance;
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = collector().new_buffer();
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as there is room for
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  if (buffer != nullptr) collector().take_buffer(buffer, valid);
}

size_t count_dropped() {
  size_t dropped = 0;
  check_cupti(cupti().get_dropped(nullptr, 0, &dropped), "cuptiActivityGetNumDroppedRecords");
  return dropped;
}

void disable_all() {
  for (const CUpti_ActivityKind kind : kKinds) (void)cupti().disable(kind);
}

}  // namespace

bool begin_activities(int64_t most) {
  if (find_cupti() == nullptr) return false;
  try {
    check_cupti(cupti().register_callbacks(give_buffer, take_buffer),
                "cuptiActivityRegisterCallbacks");
    (void)count_dropped();  // of an earlier session
    collector().begin(most, read_clocks());
    for (const CUpti_ActivityKind kind : kKinds) {
      check_cupti(cupti().enable(kind), "cuptiActivityEnable");
    }
    return true;
  } catch (const Error& error) {
    disable_all();
    collector().cancel();
    tell_once(Error(concat(error.what(), "; events take the times of kernels instead")));
    return false;
  }
}

Activities end_activities() {
  Moment stop;
  try {
    check_cupti(cupti().flush_all(0), "cuptiActivityFlushAll");
    disable_all();
    check_cupti(cupti().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
    collector().add_dropped(count_dropped());
    stop = read_clocks();
  } catch (const Error& error) {
    disable_all();
    tell_once(Error(concat(error.what(), "; some kernels have no times")));
  }
  return collector().end(stop);
}

void push_launch(uint64_t launch) noexcept { (void)cupti().push_id(kOurs, launch); }
void pop_launch() noexcept { (void)cupti().pop_id(kOurs, nullptr); }

}  // namespace wick::cuda
