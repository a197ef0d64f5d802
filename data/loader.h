#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/tensor.h"
#include "wick/data/dataset.h"
#include "wick/data/iterable.h"
#include "wick/data/sampler.h"

namespace wick {
class Generator;
}

namespace wick::data {

namespace loading {  // the parts of a loader
struct Result;
class Reader;
class Workers;
class WorkerTuner;
}  // namespace loading

/// As num_workers: as many as measuring shows to be needed.
inline constexpr int kAuto = -1;

/// What becomes of samples that cannot be read.
enum class OnError {
  kThrow,  // the batch's error is thrown when its turn has come
  kSkip,   // they are left out of their batches, and counted
};

/// PyTorch's, by the same names. Unlike there, workers are threads, and what is read does not
/// depend on how many there are.
///
/// As there, shuffling and random transforms follow from a base seed, which the first `next` of
/// each epoch draws from `generator`, by default the CPU's default generator: manual_seed decides
/// on them. With a `seed` nothing is drawn: epochs, each of which has an order of its own, follow
/// from that alone. A sampler that processes share (DistributedSampler) needs the same seed in all
/// of them, and has seed 0 unless told otherwise.
struct DataLoaderOptions {
  /// None: samples come one by one, without the axis of the batch.
  std::optional<int64_t> batch_size = 1;
  bool shuffle = false;  // a new order in each epoch
  /// The samples of each epoch and their order. Not with shuffle.
  std::shared_ptr<const Sampler> sampler = {};
  /// The batches of each epoch. Not with batch_size, shuffle, sampler or drop_last.
  std::shared_ptr<const Batches> batch_sampler = {};
  /// Threads that read ahead; with 0 the caller's thread reads; or kAuto. Of no effect on what is
  /// read.
  int num_workers = 0;
  /// Makes a batch of samples, in place of stacking them: of samples of unlike shapes one that is
  /// padded. Called by several threads at once.
  std::function<Batch(std::vector<Sample>)> collate_fn = {};
  bool pin_memory = false;  // batches in pinned memory, if there is a GPU
  bool drop_last = false;   // leave out the last batch of an epoch if it is not full
  /// Seconds that `next` waits for a batch before it throws; 0: for ever. Needs workers.
  double timeout = 0;
  /// Called with its number in each worker thread that starts.
  std::function<void(int)> worker_init_fn = {};
  /// What base seeds are drawn from; must outlive the loader. Not with `seed`.
  Generator* generator = nullptr;
  std::optional<int> prefetch_factor =
      {};  // batches read ahead per worker, default 2. Needs workers.
  /// Whether workers outlive an epoch, and with a `seed` read ahead into the next. Default true,
  /// unlike PyTorch. Needs workers.
  std::optional<bool> persistent_workers = {};
  /// False: batches come as they are finished. Then no run can be repeated or resumed exactly. (Of
  /// no effect on iterable data sets.)
  bool in_order = true;
  std::optional<uint64_t> seed = {};  // of the orders and random transforms of all epochs
  OnError on_error = OnError::kThrow;
};

/// Gives the batches of a data set, epoch after epoch. A batch is a function of the data, the seed,
/// the epoch and its place in the epoch alone: not of the
/// number of workers, nor of where loading began. Each worker fills whole batches, in place; at
/// most num_workers * prefetch_factor are held, those of the next epoch included. Memory of batches
/// that were dropped is used again.
class DataLoader {
 public:
  DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options);
  /// Options for shuffling and sampling are errors.
  DataLoader(std::shared_ptr<const IterableDataset> dataset, const DataLoaderOptions& options);
  /// Stops the workers, wherever they are, within a second. One that a source keeps waiting for
  /// longer is left to itself (see WorkerInfo::stopping); until it ends it holds on to the data
  /// set.
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;

  /// Batches per epoch. Error for an iterable data set that does not know its size; where it has
  /// several shards, or samples are skipped, epochs may have a few more or fewer.
  int64_t size() const;
  /// The next batch; nothing at the end of an epoch, after which the next epoch begins. An error
  /// while reading a batch is thrown when its turn has come, with worker, batch and sample; the
  /// call after that goes on with the next batch. After a time-out it waits for the same one again.
  std::optional<Batch> next();
  /// Whether `next` would return, or throw, at once.
  bool ready() const;
  /// Makes batch number `batch` (0 to size()) of epoch `epoch` the next one. An iterable data set
  /// is read up to there; where it ends before, that is an error, and the first batch of `epoch` is
  /// the next one. Other errors leave the position as it was. `seed`: what seed() was there;
  /// without it a loader that draws them draws another, unless it is in that epoch.
  void seek(int64_t epoch, int64_t batch, std::optional<uint64_t> seed = {});
  /// The position of the next batch: what `seek` needs, with `seed`, to go on from here.
  int64_t epoch() const { return epoch_; }
  int64_t batch() const { return batch_; }
  /// What the order and random transforms of this epoch follow from; nothing where it is still to
  /// be drawn, by the epoch's first `next`.
  std::optional<uint64_t> seed() const { return seed_; }
  /// Threads that read at present.
  int num_workers() const;
  /// Seconds that `next` spent on waiting for data (with no workers: on reading it) so far.
  double wait_seconds() const { return wait_seconds_; }
  /// Seconds that reading took so far, in all threads together.
  double read_seconds() const { return read_seconds_; }
  /// Samples left out of the batches given so far, and what was wrong with the last of them.
  int64_t skipped() const { return skipped_; }
  const std::string& last_skipped() const { return last_skipped_; }

  /// Walks through the rest of the current epoch: `for (const Batch& batch : loader)`.
  class Iterator {
   public:
    explicit Iterator(DataLoader* loader) : loader_(loader) { ++*this; }
    Iterator() = default;
    const Batch& operator*() const { return *batch_; }
    Iterator& operator++() {
      batch_.reset();  // its memory may be that of the next one
      batch_ = loader_->next();
      return *this;
    }
    friend bool operator!=(const Iterator& a, const Iterator& b) {
      return a.batch_.has_value() != b.batch_.has_value();
    }

   private:
    DataLoader* loader_ = nullptr;
    std::optional<Batch> batch_;
  };
  /// Fetches the next batch, on which the walk begins.
  Iterator begin() { return Iterator(this); }
  /// The end of the epoch. A walk begun after it goes through the next epoch.
  Iterator end() { return {}; }

 private:
  loading::Result take();
  void draw_seed();
  void end_epoch();
  /// Whether workers may begin on the next epoch before this one ends.
  bool reads_past_epochs() const;
  /// Puts `reader`, a new one, at the start of `epoch`.
  void begin(int64_t epoch, std::optional<uint64_t> seed, std::shared_ptr<loading::Reader> reader);
  /// Reads on to batch `batch` of this epoch of an iterable data set.
  void skip_to(int64_t batch);

  DataLoaderOptions options_;
  std::function<std::shared_ptr<loading::Reader>()> make_reader_;
  std::shared_ptr<loading::Reader> reader_;
  std::unique_ptr<loading::WorkerTuner> tuner_;  // with kAuto
  // None before the first `next`, nor with num_workers = 0.
  std::unique_ptr<loading::Workers> workers_;
  std::optional<uint64_t> seed_;  // of this epoch
  int64_t epoch_ = 0, batch_ = 0;
  int64_t task_ = 0;      // of this epoch: the batch, unless shards have ended
  int ended_shards_ = 0;  // in a row
  int64_t skipped_ = 0;
  std::string last_skipped_;
  double wait_seconds_ = 0, read_seconds_ = 0;
  std::optional<std::chrono::steady_clock::time_point> last_given_;  // in this epoch
};

}  // namespace wick::data
