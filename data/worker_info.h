#pragma once

#include <atomic>
#include <cstdint>

namespace wick::data {

/// The worker thread of a loader that asks.
struct WorkerInfo {
  int id = 0;           // 0 to num_workers - 1
  int num_workers = 0;  // at most, where the loader chooses
  uint64_t seed = 0;    // its own in each epoch: the same for all workers, plus id
  const std::atomic<bool>* stop = nullptr;  // set once what is read is not needed

  /// A data set that waits for its source should ask now and then, and throw if so: a loader being
  /// destroyed waits for its workers for a second, and then leaves them to themselves.
  bool stopping() const { return stop->load(std::memory_order_relaxed); }
};

/// That of the calling thread; null in a thread that is no loader's worker.
const WorkerInfo* get_worker_info();

}  // namespace wick::data
