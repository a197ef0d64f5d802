#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// What CUPTI, NVIDIA's library for profilers, tells of the work of this process's GPUs. The library
// is opened when first needed.
namespace wick::cuda {

/// One piece of work of a GPU, or a wait.
struct Activity {
  enum Kind : uint8_t { kKernel, kCopy, kWait };
  Kind kind = kKernel;
  std::string_view name;  // "Memcpy HtoD (Pinned -> Device)"; of a kernel without parameters
  int device = 0;
  uint32_t context = 0;      // CUPTI's number of it
  uint32_t stream = 0;       // CUPTI's number of it
  uint32_t correlation = 0;  // number of the call that queued it
  uint64_t launch = 0;       // what was pushed where it was queued; 0: nothing
  int64_t launched = 0;      // when, as `start`; 0: not known
  int64_t start = 0;         // nanoseconds of std::chrono::steady_clock; 0: not known
  int64_t duration = 0;      // nanoseconds by the GPU's clock; 0: not known
  int64_t bytes = 0;         // of a copy or a fill
  uint64_t graph_node = 0;   // of a replayed graph
  int32_t grid[3] = {}, block[3] = {};
  int32_t registers = 0;      // of a thread
  int32_t shared_memory = 0;  // bytes of a block
};

/// All that CUPTI told between begin_activities() and end_activities(), in no order.
struct Activities {
  std::vector<Activity> all;
  int64_t dropped = 0;                                   // for which CUPTI, or `most`, had no room
  std::shared_ptr<const std::deque<std::string>> names;  // what the names are parts of
};

/// Begins to collect about `most` activities. False if there is no CUPTI, or an old one; also if it
/// fails, which stderr is told of once.
bool begin_activities(int64_t most);
/// Ends it. What is to be told of must be over: the caller has waited for the GPUs.
Activities end_activities();

/// Ties what this thread queues from now on to `launch`, until the pop.
void push_launch(uint64_t launch) noexcept;
void pop_launch() noexcept;

}  // namespace wick::cuda
