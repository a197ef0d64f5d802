#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "wick/core/profile/event.h"

namespace wick::profile {

inline constexpr int64_t kUs = 1000;  // nanoseconds

/// A recording by hand: events of one thread in the order of their beginnings.
class ByHand {
 public:
  ByHand() { recording.with_shapes = recording.with_memory = recording.with_flops = true; }
  Event& add(EventKind kind, const char* name, int64_t start_us, int64_t end_us) {
    Event event;
    event.kind = kind;
    event.name = name;
    event.start_ns = start_us * kUs;
    event.end_ns = end_us * kUs;
    recording.events.push_back(event);
    return recording.events.back();
  }
  /// Numbers beginnings and ends by their times.
  const Recording& finish() {
    std::vector<std::pair<int64_t, uint32_t*>> order;
    for (Event& event : recording.events) {
      order.emplace_back(2 * event.start_ns, &event.begin_order);
      order.emplace_back(2 * event.end_ns - 1, &event.end_order);
      if (event.start_ns == event.end_ns) order.back().first = 2 * event.start_ns;
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (uint32_t i = 0; i < order.size(); ++i) *order[i].second = i;
    std::sort(recording.events.begin(), recording.events.end(),
              [](const Event& a, const Event& b) { return a.begin_order < b.begin_order; });
    return recording;
  }
  Recording recording;
};

}  // namespace wick::profile
