#pragma once

#include "wick/core/base/profiling.h"

namespace wick::profile {

/// A bit of wanted(): CUPTI tells what GPUs do.
inline constexpr uint32_t kWantsActivities = 128;

namespace detail {
bool begin_launch() noexcept;
void end_launch() noexcept;
}  // namespace detail

/// Around a call that queues other work than kernels: ties what CUPTI tells of the work to the
/// operation under way.
class LaunchScope {
 public:
  LaunchScope() : is_on_((wanted() & kWantsActivities) != 0 && detail::begin_launch()) {}
  ~LaunchScope() {
    if (is_on_) detail::end_launch();
  }
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

 private:
  bool is_on_;
};

}  // namespace wick::profile
