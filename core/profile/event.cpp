#include "wick/core/profile/event.h"

namespace wick::profile {

const char* to_string(EventKind kind) {
  static constexpr const char* kNames[] = {
      "step",   "function", "module",     "op",          "backward",   "optimizer", "loader_wait",
      "sync",   "copy",     "collective", "wait",        "capture",    "replay",    "kernel",
      "memory", "memory",   "label",      "device_copy", "device_wait"};
  return kNames[static_cast<size_t>(kind)];
}

const char* to_string(MemoryUse use) {
  static constexpr const char* kNames[] = {"other",           "parameters",  "gradients",
                                           "optimizer state", "activations", "temporaries"};
  return kNames[static_cast<size_t>(use)];
}

namespace {
bool is_moment(const Event& event) {
  return event.kind == EventKind::kKernel || event.kind == EventKind::kAllocation ||
         event.kind == EventKind::kFree || event.kind == EventKind::kMemoryLabel ||
         event.kind == EventKind::kDeviceCopy || event.kind == EventKind::kDeviceWait;
}
}  // namespace

std::vector<int64_t> parents_of(const Recording& recording) {
  const std::vector<Event>& events = recording.events;
  std::vector<int64_t> parents(events.size(), -1), open;
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (i > 0 && events[i - 1].thread != event.thread) open.clear();
    while (!open.empty() &&
           events[static_cast<size_t>(open.back())].end_order < event.begin_order) {
      open.pop_back();
    }
    if (event.is_async) continue;
    if (!open.empty()) parents[i] = open.back();
    if (!is_moment(event) && event.kind != EventKind::kModule) {
      open.push_back(static_cast<int64_t>(i));
    }
  }
  return parents;
}

std::vector<int64_t> self_times(const Recording& recording, const std::vector<int64_t>& parents) {
  const std::vector<Event>& events = recording.events;
  std::vector<int64_t> self(events.size(), 0);
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (event.is_async || is_moment(event) || event.kind == EventKind::kModule) continue;
    const int64_t time = event.end_ns - event.start_ns;
    self[i] += time;
    if (parents[i] >= 0) self[static_cast<size_t>(parents[i])] -= time;
  }
  return self;
}

}  // namespace wick::profile
