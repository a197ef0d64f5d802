#pragma once

#include <cstdint>
#include <string>

#include "wick/kernels/sim/cuda_runtime.h"
#include "wick/kernels/sim/geometry.h"

struct SimulatedStream;

// What stands for CUPTI is told of the simulated GPUs' work by the simulator, and in tests how to
// behave.
namespace wick::sim {

struct ActivitySettings {
  /// "libcupti", or the name of a function: is not there. For a process that has not profiled yet.
  std::string missing = {};
  /// The name of a function that fails from now on.
  std::string failing = {};
  int64_t drop_every = 0;  // 3: each third record is dropped, and counted; 0: none
  bool shuffled = false;   // records come in a random order
  /// So many records are delivered at once, by another thread, without a flush; 0: none are.
  int64_t early = 0;
};
void set_activity_settings(const ActivitySettings& settings);
/// The function of that name; null if the settings or CUPTI lack it.
void (*cupti_function(const char* name))();

/// One piece of work, as records show it.
struct WorkNote {
  enum Kind : uint8_t { kNone, kKernel, kCopy, kFill };
  Kind kind = kNone;
  dim3 grid = {}, block = {};
  size_t shared = 0, bytes = 0;
  int from_device = -1, to_device = -1;  // of a copy; -1: pinned host memory, -2: pageable
  uint32_t correlation = 0;              // of the call that queued it
  uint64_t graph_node = 0;
};

/// A call of the runtime or of a library begins.
void note_call();
/// The number of the call that this thread made last; 0 where nothing was kept then.
uint32_t last_call();
/// `stream` is to wait for an event, or the host waits for the stream.
void note_wait(const SimulatedStream& stream, bool is_host);
/// A piece of work is over. The stream's clock showed `begin` and `end` milliseconds.
void note_work(const char* name, const WorkNote& note, const SimulatedStream& stream, double begin,
               double end);

}  // namespace wick::sim
