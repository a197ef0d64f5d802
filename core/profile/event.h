#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wick/core/base/device.h"

namespace wick::profile {

enum class EventKind : uint8_t {
  kStep,             // from one Profiler::step() to the next
  kFunction,         // a RecordFunction
  kModule,           // a module's forward
  kOp,               // an operation
  kBackward,         // the backward of one, or the collection of a leaf's gradient
  kOptimizer,        // an optimizer's step
  kLoaderWait,       // the wait for a batch
  kSynchronization,  // the host waits for a GPU
  kCopy,             // between host and GPU, or between GPUs
  kCollective,       // carried out by a process group's thread
  kCollectiveWait,   // the wait for a collective
  kCapture,          // of a CudaGraph
  kReplay,           // of one
  kKernel,           // queued on a GPU: a moment, or how long it ran there
  kAllocation,       // a moment, as the two below
  kFree,
  kMemoryLabel,  // what the memory at an address is for
  kDeviceCopy,   // a copy or a fill by a GPU, as CUPTI told of it: like kKernel
  kDeviceWait,   // of a stream for an event, or of the host for a stream, as CUPTI told of it
};

/// "op", "loader_wait"
const char* to_string(EventKind kind);

/// What memory is for. What has no label follows from who asked for it, and when.
enum class MemoryUse : uint8_t {
  kOther,
  kParameter,
  kGradient,
  kOptimizerState,
  kActivation,
  kTemporary
};

/// "parameters", "activations"
const char* to_string(MemoryUse use);

/// Something that happened while a profiler recorded. Times are those of std::chrono::steady_clock,
/// in nanoseconds.
struct Event {
  EventKind kind = EventKind::kOp;
  bool is_async = false;  // ended on another thread than it began on, or beside the thread's work
  MemoryUse use = MemoryUse::kOther;  // of a label
  Device device;
  uint32_t thread = 0;  // from 0, in the order in which threads were seen
  // Counted per thread, beginnings and ends together: one event is within another if its two
  // numbers are.
  uint32_t begin_order = 0, end_order = 0;
  int64_t start_ns = 0, end_ns = 0;
  std::string_view name;
  std::string_view shapes;  // of the inputs, as a list: "[[64, 784], []]"
  std::string_view module;  // dotted path
  // Of an operation that is recorded for backward, and of its backward: the same number, from 1.
  // Of a collective: its number in its group. Of what CUPTI told of: its place in
  // Recording::launches, from 1.
  uint64_t sequence = 0;
  double flops = 0;
  int64_t bytes = 0;  // of inputs and results, of a copy, of memory
  const void* stream = nullptr;
  uintptr_t address = 0;     // of memory
  int64_t allocated = 0;     // bytes live behind an allocation or a free
  int64_t device_ns = 0;     // how long a kernel ran; 0: not known
  int64_t device_start = 0;  // when, on the clock of the others
};

/// What CUPTI told of one piece of a GPU's work beside its times.
struct Launch {
  int32_t grid[3] = {}, block[3] = {};  // of a kernel, in blocks and threads
  int32_t registers = 0;                // of a thread
  int32_t shared_memory = 0;            // bytes of a block
  uint32_t stream = 0;                  // CUPTI's number of it
  uint32_t correlation = 0;             // of the call that queued it
  uint64_t graph_node = 0;              // of a replayed graph; 0: of none
};

/// What a profiler recorded.
struct Recording {
  std::vector<Event> events;  // by thread, and on each in the order of their beginnings
  int64_t start_ns = 0, end_ns = 0;
  int64_t start_system_ns = 0;     // since 1970, at start_ns
  int64_t dropped = 0;             // events that there was no room for
  int64_t dropped_activities = 0;  // work of GPUs of which CUPTI dropped the records
  std::vector<Launch> launches;    // of the events that CUPTI told of
  int64_t first_step = 0;          // number of the first step
  int rank = 0;                    // of the process in its group
  bool with_shapes = false, with_memory = false, with_flops = false, with_modules = false;
  std::vector<std::shared_ptr<const void>> texts;  // what the events' names are parts of
};

/// Of each event the place of the one that it is within, on its thread; -1 if there is none.
/// Modules and asynchronous events are parents of no event.
std::vector<int64_t> parents_of(const Recording& recording);

/// Of each event the nanoseconds in which no event within it ran. 0 for moments, modules, and what
/// is asynchronous: on each thread all others sum to the time in which anything ran.
std::vector<int64_t> self_times(const Recording& recording, const std::vector<int64_t>& parents);

}  // namespace wick::profile
