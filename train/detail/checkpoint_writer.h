#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "wick/core/checkpoint.h"
#include "wick/core/stream.h"

namespace wick::train {

/// Writes checkpoints in a thread of its own, while the run goes on: what it is given is copied
/// first, on the device where it is, or to the host where the device has no memory for that.
class CheckpointWriter {
 public:
  /// What became of a checkpoint.
  struct Written {
    int64_t step = 0;
    std::string path = {};
    std::string error = {};          // empty: it is written
    std::exception_ptr broken = {};  // the DeviceError, if that is why it is not
  };

  /// `keep` (1 or more): how many of the newest stay when a new one is written.
  explicit CheckpointWriter(int keep) : keep_(keep) {}
  /// Waits for the one that is being written.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// The checkpoint of `step` is a good one, though not of this writer: it stays until there are
  /// `keep` that are newer, of which what is damaged is none.
  void trust(int64_t step);
  /// Copies `checkpoint`, which may change from here on, and begins to write it to `folder`. Waits
  /// for the one before. Checkpoints of the steps `kept` are not removed, whatever is newer.
  void start(const std::string& folder, const Checkpoint& checkpoint,
             const std::set<int64_t>& kept = {});
  /// What has been written, or not, since the last call.
  std::vector<Written> take_written();
  /// Waits until nothing is being written.
  void wait();

 private:
  struct Job {
    /// Copies `x`.
    void add(const std::string& part, const std::string& name, const Tensor& x);
    std::string folder = {};
    Checkpoint checkpoint = {};
    std::set<int64_t> kept = {};
    std::vector<std::pair<Device, Event>> ready = {};  // of the copies on GPUs
  };
  void work();
  static void bring_to_host(Job& job);

  const int keep_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Job> job_;  // waiting, or being written
  std::vector<Written> written_;
  std::set<int64_t> good_;  // steps of the newest that are known to be: `keep` less one
  bool is_stopping_ = false;
  std::optional<std::thread> thread_;  // from the first checkpoint on
};

}  // namespace wick::train
