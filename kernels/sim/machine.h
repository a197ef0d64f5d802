#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "wick/core/base/philox.h"
#include "wick/kernels/sim/activity.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/kernels/sim/simulator.h"

// The state of the simulated GPUs, which the files of the simulator share. All under one lock.

/// One piece of queued work: something to do, or a point of another stream to wait for.
struct SimulatedWork {
  const char* name = "";
  std::function<std::string()> run = {};  // returns what went wrong, if anything
  SimulatedStream* stream = nullptr;
  uint64_t position = 0;
  std::shared_ptr<char> token = {};     // orders this behind what queued it, for ThreadSanitizer
  std::function<bool()> is_ready = {};  // none: as soon as it is its turn
  bool always = false;                  // on a broken device too
  double queued_at = 0;                 // the host's time in milliseconds
  double milliseconds = 0;              // that it pretends to take
  wick::sim::WorkNote note = {};        // what stands for CUPTI tells of it
};

/// What a capture has seen so far, of all streams that joined it, in the order of the calls.
struct SimulatedCapture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  SimulatedStream* origin;
  std::vector<SimulatedWork> work = {};
  std::set<const void*> shown = {};  // memory that the captured work makes visible
  bool invalidated = false;
};

struct SimulatedStream {
  int device = 0;
  int priority = 0;
  bool alive = true;
  std::deque<std::unique_ptr<SimulatedWork>> queue;
  uint64_t queued = 0, done = 0;  // pieces of work so far
  double milliseconds = 0;        // that they pretended to take
  wick::sim::Identity identity = nullptr;
  char end_token = 0;
  std::shared_ptr<SimulatedCapture> capture = {};  // null: work is queued, not captured
  uint64_t captured = 0, joined = 0;  // pieces of work of this capture; what its origin awaits
};

struct SimulatedEvent {
  bool timing = false;
  SimulatedStream* stream = nullptr;  // null: never recorded
  uint64_t position = 0;
  std::shared_ptr<char> token;
  std::shared_ptr<double> milliseconds = {};       // of the stream when the mark was reached
  std::shared_ptr<SimulatedCapture> capture = {};  // recorded in it: no mark that can be waited for
};

namespace wick::sim {

struct SimulatedMemory {
  size_t bytes = 0;
  int device = -1;      // -1: pinned host memory
  bool mapped = false;  // by the driver: with what lies next to it one piece to its users
};

/// Memory without addresses, or behind those that it was mapped to.
struct SimulatedPiece {
  size_t bytes = 0;
  int device = 0;
  uintptr_t address = 0;  // 0: none
  bool held = true;       // its handle was not released
};

struct SimulatedDevice {
  size_t capacity = 0, used = 0;
  cudaError_t broken = cudaSuccess;
  SimulatedStream default_stream;
};

struct Machine {
  std::recursive_mutex mutex;
  Settings settings;
  PhiloxStream random{1, 0};
  std::vector<std::unique_ptr<SimulatedDevice>> devices;
  std::vector<std::unique_ptr<SimulatedStream>> streams;
  std::map<uintptr_t, SimulatedMemory> memory;
  std::map<uintptr_t, size_t> reserved;  // addresses, with or without memory
  std::map<unsigned long long, SimulatedPiece> pieces;
  unsigned long long last_piece = 0;
  std::string last_failure;
  std::vector<uint64_t> blocks;
  std::vector<Engine> engines;
  int64_t calls = 0, waits = 0, largest_grid = 0;
  int multiprocessors = 0;       // of each device
  double host_milliseconds = 0;  // that the host pretended to take
  int64_t malloc_countdown = 0;  // 0: none fails; 1: the next and all after it
  int64_t fail_countdown = 0;
  cudaError_t fail_error = cudaSuccess;
  std::string fail_name, failed_call;

  Machine();
  /// The stream behind a handle of the current device; null if there is none such.
  SimulatedStream* find(cudaStream_t stream);
  /// Runs the queue of `stream` until `position` pieces are done, and what that waits for. Lets go
  /// of the lock, which must be held once, while a piece of it is not ready.
  void run_until(SimulatedStream& stream, uint64_t position);
  /// Runs the next piece, and what it waits for; false if there is none or one is not ready.
  bool try_one(SimulatedStream& stream);
  /// Whether the device has come to the mark of `event`, where it has a speed at the host's time.
  bool has_reached(const SimulatedEvent& event);
  /// Runs some work of random streams.
  void run_some();
  /// Queues the work, or keeps it for the graph if the stream is being captured.
  void add(SimulatedStream& stream, SimulatedWork work);
  /// Queues it in any case.
  void queue(SimulatedStream& stream, SimulatedWork work);
  const SimulatedMemory* find_memory(const void* pointer, size_t bytes) const;
  std::vector<SimulatedStream*> all_streams(int device);
};

Machine& machine();
/// The calling thread's device.
int& current_device();
/// The error of a call that this thread must not make while it captures, which ends the capture;
/// else success.
cudaError_t refuse_in_capture(const Machine& m);
/// Ends the capture that `stream` is in: its graph will never be. Returns `error`.
cudaError_t invalidate(SimulatedStream& stream, cudaError_t error);
/// Remembers a failed call's error for cudaGetLastError.
cudaError_t report(cudaError_t error);

}  // namespace wick::sim

/// Begins an entry point: takes the lock, counts the call, may let it fail.
#define WICK_SIM_ENTER(name)                                                               \
  ::wick::sim::Machine& m = ::wick::sim::machine();                                        \
  const std::lock_guard<std::recursive_mutex> lock(m.mutex);                               \
  if (const cudaError_t injected = ::wick::sim::enter_call(name); injected != cudaSuccess) \
  return injected

/// The same of the driver.
#define WICK_SIM_ENTER_DRIVER(name)                                                          \
  ::wick::sim::Machine& m = ::wick::sim::machine();                                          \
  const std::lock_guard<std::recursive_mutex> lock(m.mutex);                                 \
  if (const cudaError_t injected = ::wick::sim::enter_call(name); injected != cudaSuccess) { \
    (void)cudaGetLastError(); /* the driver keeps none */                                    \
    return static_cast<CUresult>(injected);                                                  \
  }
