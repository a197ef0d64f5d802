#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "wick/kernels/sim/cuda_runtime.h"
#include "wick/kernels/sim/geometry.h"

// How the simulated GPU behaves, for tests. The environment sets the start:
//   WICK_SIM_DEVICES=2     devices (1 to 16; 1 unless set)
//   WICK_SIM_MEMORY=1024   MiB of each device (4096 unless set)
//   WICK_SIM_MULTIPROCESSORS=7  of each device, by which kernels choose their grids (132 unless
//   set) WICK_SIM_ORDER=...     forward, reverse, random or ahead (see ThreadOrder)
//   WICK_SIM_STREAMS=...   lazy, random or eager (see StreamOrder)
//   WICK_SIM_SEED=7        what random orders follow from
//   WICK_SIM_BREAK=700     the 700th call breaks its device, as a wild address in a kernel does
//   WICK_SIM_WITHOUT_BARRIER=kernels/cuda/sort.cu:37
//                          no thread waits at the __syncthreads() or __syncwarp() of that line:
//                          for tools/mutate_barriers.py
namespace wick::sim {

/// Which thread of a block runs next. A thread runs until it waits for others.
enum class ThreadOrder : uint8_t {
  kForward,  // 0, 1, 2, ...
  kReverse,
  kRandom,
  kAhead,  // one thread of each block runs as far as it can before any other moves
};

/// When queued work runs. All are legal orders.
enum class StreamOrder : uint8_t {
  kLazy,    // as late as possible: when somebody waits for it
  kRandom,  // some of it, now and then
  kEager,   // at once
};

struct Settings {
  ThreadOrder threads = ThreadOrder::kForward;
  StreamOrder streams = StreamOrder::kLazy;
  uint64_t seed = 1;
};
Settings settings();
void set_settings(const Settings& settings);

/// Sets `settings`, and the earlier ones again when it goes out of scope.
class ScopedSettings {
 public:
  explicit ScopedSettings(const Settings& now) : before_(settings()) { set_settings(now); }
  ~ScopedSettings() { set_settings(before_); }
  ScopedSettings(const ScopedSettings&) = delete;
  ScopedSettings& operator=(const ScopedSettings&) = delete;

 private:
  Settings before_;
};

/// Lets the `nth` runtime or library call from now (1: the next) whose name contains `name` (all,
/// if empty) fail with `error`; 0 lets none fail. Those after which a real device is of no use
/// (cudaErrorIllegalAddress and the like) break it: every later call fails with them too, until
/// `reset`.
void fail_call(int64_t nth, cudaError_t error, const std::string& name = "");
/// How many calls the one that shall fail is away: 0 if it came, or was never asked for.
int64_t calls_until_failure();
/// The name of the call that `fail_call` let fail last; empty if none did so far.
std::string failed_call();
/// Lets the `nth` cudaMalloc from now and all after it fail, as on a full device; 0 ends it.
void fail_malloc_from(int64_t nth);
/// Runtime and library calls so far, but for cudaGetDevice, which comes before all others.
int64_t calls();
/// Blocks of the largest kernel since the last call; 0 if there was none.
int64_t take_largest_grid();
/// Calls so far that made the host wait for a device.
int64_t waits();
/// Mends broken devices and drops their queued work; memory stays.
void reset();

/// What went wrong in simulated code last, in words: kernel, block, thread. Empty if nothing.
std::string last_failure();

/// Runs only these blocks of every kernel, as far as its grid has them: those at the boundaries of
/// a huge one. All, if empty.
void set_blocks(std::vector<uint64_t> blocks);

/// One of the engines by which what stands for cuDNN and cuBLASLt pretends to compute. All give the
/// same result.
struct Engine {
  std::string name;
  double milliseconds = 0;  // that events say it takes
  bool deterministic = true;
  cudaError_t error = cudaSuccess;  // what its use ends with
  double host_milliseconds = 0;     // that the host takes to launch it
  int64_t runs = 0;
};
/// Lets it have these engines from now on, its own first choice first, and lets events tell their
/// times. Empty, as at the start: one engine, and no time, for a simulated GPU has no speed.
void set_engines(std::vector<Engine> engines);
/// The engines, with how often each ran.
std::vector<Engine> engines();
/// Counts a run of the engine called `name`.
void count_run(const std::string& name);

/// Names an entry point, counts it and lets it fail where `fail_call` said so.
cudaError_t enter_call(const char* name);

/// Queues `work` on `stream` of the current device: what stands for a vendor library's kernels.
/// What it throws breaks the device, as a failure of a kernel does. `milliseconds` is what events
/// will say it took, if they tell times. It holds its stream up until
/// `is_ready`, which is asked now and then, by any thread, and calls nothing of the simulator.
cudaError_t enqueue(const char* name, cudaStream_t stream, std::function<void()> work,
                    double milliseconds = 0, std::function<bool()> is_ready = {});
/// Runs the queue of `stream` as far as it goes without waiting.
void run_what_is_ready(cudaStream_t stream);
/// Queues a kernel: `thread` is run once per thread of the grid.
cudaError_t launch(const char* name, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                   std::function<void()> thread);

/// Whether [pointer, pointer + bytes) lies in one allocation of device memory.
bool is_device_memory(const void* pointer, size_t bytes);
/// Whether it lies in one allocation of pinned host memory.
bool is_pinned_memory(const void* pointer, size_t bytes);

}  // namespace wick::sim
