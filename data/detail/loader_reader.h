#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wick/data/loader.h"

// How a loader makes batches, whichever thread it is that makes them.
namespace wick::data::loading {

/// What reading a batch came to.
struct Result {
  Batch batch;
  bool missing = false;  // all its samples were skipped
  bool ended = false;    // no batch: the shard whose turn it is has no more
  int64_t skipped = 0;
  std::string last_skipped;
  double seconds = 0;
  std::exception_ptr error;
};

/// What a thread reads, for errors and time-outs.
struct Status {
  Status(std::string who_in, const std::atomic<bool>& stop_in)
      : who(std::move(who_in)), stop(stop_in) {}
  std::string who;                  // "worker 3, ", or nothing
  std::atomic<int64_t> sample{-1};  // -1: none yet
  const std::atomic<bool>& stop;
};

/// The exception under way with `place` before its text; of the same type where that is one of
/// Wick's.
std::exception_ptr current_error_at(const std::string& place);

/// Makes any batch of any epoch. Used by several threads at once.
class Reader {
 public:
  Reader(const std::vector<Field>& fields, const DataLoaderOptions& options);
  virtual ~Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Batches per epoch; none if an epoch ends where its shards do.
  virtual std::optional<int64_t> tasks() const = 0;
  /// What DataLoader::size gives.
  virtual int64_t size() const = 0;
  virtual int shards() const { return 0; }
  /// Makes batch `task` of `epoch`; with shards, the next one of shard `task` mod shards(). Throws
  /// nothing: errors are in the result.
  Result read(int64_t epoch, int64_t task, Status& status);
  /// "sample 9 (/data/9.jpg)", or "sample 9" where the data set cannot name it. For errors.
  virtual std::string describe(int64_t task, int64_t sample) const = 0;

  /// What the next epochs to be read follow from.
  void set_seed(uint64_t seed) { seed_ = seed; }
  /// What the random numbers of an epoch follow from.
  BatchRead::Randomness randomness(int64_t epoch) const { return {seed_, epoch, {}}; }

  /// The last epoch whose tasks, and those of the next one, have numbers.
  int64_t last_epoch() const {
    return std::numeric_limits<int64_t>::max() / std::max<int64_t>(stride(), 1) - 2;
  }
  /// The tasks of all epochs in one row of numbers.
  int64_t number(int64_t epoch, int64_t task) const { return epoch * stride() + task; }
  std::pair<int64_t, int64_t> epoch_and_task(int64_t number) const {
    return {number / stride(), number % stride()};
  }

 protected:
  virtual void make(int64_t epoch, int64_t task, Status& status, Result& result) = 0;

  /// Memory for `count` samples; without the axis of the batch if there are to be none.
  Batch new_batch(int64_t count) const;
  std::vector<BatchRead::Column> columns(const Batch& batch) const;
  /// Keeps the first `count` of the samples read. `batch` was made for `all`.
  static void keep(int64_t count, int64_t all, Result& result);
  /// Makes `samples` the batch, by the user's function or by stacking them.
  void collate(std::vector<Sample> samples, Result& result) const;
  bool collates() const { return static_cast<bool>(options_.collate_fn); }
  /// Whether the batch can do without the sample that threw the exception under way.
  bool skips(const std::exception& error) const;
  const DataLoaderOptions& options() const { return options_; }

 private:
  int64_t stride() const {
    constexpr int64_t kMostTasks = int64_t{1} << 40;
    return tasks().value_or(kMostTasks);
  }

  Batch stacked(std::vector<Sample>& samples) const;

  std::vector<Field> fields_;
  std::vector<int64_t> bytes_;  // of each field of one sample
  DataLoaderOptions options_;
  std::atomic<uint64_t> seed_;
  bool pinned_;
};

class MapReader final : public Reader {
 public:
  MapReader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options);
  std::optional<int64_t> tasks() const override { return batches_->size(); }
  int64_t size() const override { return batches_->size(); }
  std::string describe(int64_t task, int64_t sample) const override;

 private:
  void make(int64_t epoch, int64_t task, Status& status, Result& result) override;
  void stack(const std::vector<int64_t>& samples, const BatchRead::Randomness& randomness,
             Status& status, Result& result) const;
  void stack_readable(const std::vector<int64_t>& samples, const BatchRead::Randomness& randomness,
                      Status& status, Result& result) const;
  void gather(const std::vector<int64_t>& samples, const BatchRead::Randomness& randomness,
              Status& status, Result& result) const;
  std::shared_ptr<const BatchOrder> order_of(int64_t epoch);

  struct Kept {
    int64_t epoch = -1;
    std::shared_ptr<const BatchOrder> order;
  };

  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const Batches> batches_;
  std::mutex mutex_;
  Kept kept_[2];  // the last two, since workers read ahead into the next epoch
};

class IterableReader final : public Reader {
 public:
  IterableReader(std::shared_ptr<const IterableDataset> dataset, const DataLoaderOptions& options);
  std::optional<int64_t> tasks() const override { return {}; }
  int64_t size() const override;
  int shards() const override { return static_cast<int>(shards_.size()); }
  std::string describe(int64_t task, int64_t sample) const override;

 private:
  struct Shard {
    std::mutex mutex;
    std::condition_variable moved;
    int64_t epoch = -1, position = 0;  // of the batch that is next, or being read:
    bool busy = false;
    // Whoever reads it owns the rest.
    int64_t samples = 0;                       // tried so far
    std::unique_ptr<SampleIterator> iterator;  // null at the end
  };
  void make(int64_t epoch, int64_t task, Status& status, Result& result) override;
  void make_next(Shard& shard, int64_t epoch, int index, Status& status, Result& result) const;
  /// The next sample that can be read, written to `out`, or given to `sample` if that is not null;
  /// false at the end.
  bool next_sample(Shard& shard, int64_t epoch, int index, std::span<void* const> out,
                   Sample* sample, Result& result) const;
  static bool wait_for_turn(Shard& shard, int64_t epoch, int64_t position, const Status& status);

  std::shared_ptr<const IterableDataset> dataset_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace wick::data::loading
