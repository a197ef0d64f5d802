// What CUPTI tells of the work of GPUs, in the events of a recording.
#include "wick/core/profile/detail/activities.h"

#include "wick/core/base/check.h"
#include "wick/core/stream.h"
#ifdef WICK_HAS_CUPTI
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "wick/core/cuda/cupti.h"
#endif

namespace wick::profile {

#ifdef WICK_HAS_CUPTI

namespace {

// A place in the logs as a number: of the session, the thread and its event.
constexpr uint32_t kMostThreads = 0xfffe;

uint64_t launch_at(uint64_t session, uint32_t thread, uint32_t order) {
  return (session & 0xffff) << 48 | (uint64_t{thread} + 1) << 32 | order;
}
uint32_t thread_of(uint64_t launch) { return static_cast<uint32_t>((launch >> 32) & 0xffff) - 1; }
uint32_t order_of(uint64_t launch) { return static_cast<uint32_t>(launch); }

EventKind kind_of(const cuda::Activity& activity) {
  switch (activity.kind) {
    case cuda::Activity::kKernel: return EventKind::kKernel;
    case cuda::Activity::kCopy: return EventKind::kDeviceCopy;
    case cuda::Activity::kWait: return EventKind::kDeviceWait;
  }
  return EventKind::kKernel;
}

// One use, for one recording.
class Adder {
 public:
  Adder(Recording& recording, uint64_t session) : recording_(recording), session_(session) {
    for (size_t i = 0; i < recording.events.size(); ++i) {
      const Event& event = recording.events[i];
      if (event.kind != EventKind::kKernel) continue;
      owners_.emplace(launch_at(session, event.thread, event.begin_order), i);
    }
  }

  void add(std::vector<cuda::Activity> all) {
    for (cuda::Activity& activity : all) {
      if (activity.launch >> 48 != (session_ & 0xffff)) activity.launch = 0;
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.launch, a.start, a.correlation, a.graph_node) <
             std::tuple(b.launch, b.start, b.correlation, b.graph_node);
    });
    learn_streams(all);
    for (const cuda::Activity& activity : all) place(activity);
    std::vector<Event>& events = recording_.events;
    events.insert(events.end(), added_.begin(), added_.end());
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return std::pair(a.thread, a.begin_order) < std::pair(b.thread, b.begin_order);
    });
  }

 private:
  // CUPTI has numbers for streams. Those of our handles follow from the kernels queued on them.
  void learn_streams(const std::vector<cuda::Activity>& all) {
    for (const cuda::Activity& activity : all) {
      const auto owner = owners_.find(activity.launch);
      if (owner == owners_.end() || activity.graph_node != 0) continue;
      streams_.emplace(std::pair(activity.device, activity.stream),
                       recording_.events[owner->second].stream);
    }
  }

  const void* stream_of(const cuda::Activity& activity) const {
    const auto known = streams_.find({activity.device, activity.stream});
    // Of another stream its number, which is no handle's.
    return known != streams_.end() ? known->second
                                   : reinterpret_cast<const void*>(uintptr_t{activity.stream});
  }

  void place(const cuda::Activity& activity) {
    const auto owner = owners_.find(activity.launch);
    Event* event = nullptr;
    if (owner != owners_.end()) {
      event = &recording_.events[owner->second];
      if (activity.kind != cuda::Activity::kKernel || !filled_.insert(owner->second).second) {
        event = &added_.emplace_back(*event);
      }
    } else {
      event = &added_.emplace_back();
      event->start_ns = activity.launched != 0 ? activity.launched : recording_.start_ns;
      event->end_ns = event->start_ns;
      const bool is_tied = activity.launch != 0;
      event->is_async = !is_tied;
      event->thread = is_tied ? thread_of(activity.launch) : 0;
      event->begin_order = event->end_order = is_tied ? order_of(activity.launch) : UINT32_MAX;
    }
    event->kind = kind_of(activity);
    event->name = activity.name;
    event->device = cuda_device(activity.device);
    event->stream = stream_of(activity);
    event->bytes = activity.bytes;
    event->device_start = activity.start;
    event->device_ns = activity.duration;
    Launch& launch = recording_.launches.emplace_back();
    std::copy(activity.grid, activity.grid + 3, launch.grid);
    std::copy(activity.block, activity.block + 3, launch.block);
    launch.registers = activity.registers;
    launch.shared_memory = activity.shared_memory;
    launch.stream = activity.stream;
    launch.correlation = activity.correlation;
    launch.graph_node = activity.graph_node;
    event->sequence = recording_.launches.size();
  }

  Recording& recording_;
  const uint64_t session_;
  std::unordered_map<uint64_t, size_t> owners_;  // events of launches, by their places
  std::set<size_t> filled_;
  std::vector<Event> added_;
  std::map<std::pair<int, uint32_t>, const void*> streams_;
};

}  // namespace

bool begin_gpu_activities(int64_t most) {
  return cuda_is_available() && cuda::begin_activities(most);
}

void add_gpu_activities(Recording& recording, uint64_t session) {
  std::set<int> devices;
  for (const Event& event : recording.events) {
    if (event.device.is_cuda()) devices.insert(event.device.index);
  }
  for (const int device : devices) {
    try {
      synchronize(cuda_device(device));
    } catch (const Error&) {  // what is not over has no times
    }
  }
  cuda::Activities found = cuda::end_activities();
  recording.dropped_activities = found.dropped;
  recording.texts.push_back(found.names);
  Adder(recording, session).add(std::move(found.all));
}

void push_launch(const ThreadLog& log, uint32_t order) noexcept {
  const bool fits = log.thread() < kMostThreads;
  cuda::push_launch(fits ? launch_at(log.session(), log.thread(), order) : 0);
}
void pop_launch() noexcept { cuda::pop_launch(); }

#else

bool begin_gpu_activities(int64_t) { return false; }
void add_gpu_activities(Recording&, uint64_t) {}
void push_launch(const ThreadLog&, uint32_t) noexcept {}
void pop_launch() noexcept {}

#endif

}  // namespace wick::profile
