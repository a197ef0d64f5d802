#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "wick/core/core.h"

namespace wick::profile {

/// What `work` does, recorded.
template <class Work>
Recording recorded(ProfilerOptions options, const Work& work) {
  Profiler profiler(std::move(options));
  profiler.start();
  work();
  profiler.stop();
  return profiler.recording();
}

/// The events of one kind, in order.
inline std::vector<Event> of_kind(const Recording& recording, EventKind kind) {
  std::vector<Event> found;
  for (const Event& event : recording.events) {
    if (event.kind == kind) found.push_back(event);
  }
  return found;
}

inline std::vector<std::string> names_of(const std::vector<Event>& events) {
  std::vector<std::string> names;
  for (const Event& event : events) names.emplace_back(event.name);
  return names;
}

/// A small step forward and backward.
inline Tensor small_step(const Tensor& x, const Tensor& w) {
  const Tensor loss = sum(relu(matmul(x, w)));
  loss.backward();
  return loss;
}

}  // namespace wick::profile
