#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "wick/core/tensor.h"
#include "wick/data/dataset.h"

namespace wick::data {

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;     // a new order in each epoch
  int num_workers = 0;      // threads that read ahead; with 0 the caller's thread reads
  bool drop_last = false;   // leave out the last batch of an epoch if it is not full
  int prefetch_factor = 2;  // batches read ahead, per worker
  uint64_t seed = 0;        // of the order and of random transforms
};

/// Samples stacked along a new first axis: one tensor per field of the data set.
struct Batch {
  std::vector<Tensor> fields;
  const Tensor& operator[](size_t field) const { return fields[field]; }
  /// Number of samples.
  int64_t size() const { return fields[0].size(0); }
};

/// Gives the batches of a data set, epoch after epoch. A batch is a function of the data, the seed,
/// the epoch and its place in the epoch alone: not of the number of workers, nor of where loading
/// began. Workers are threads, each of which fills whole batches; at most
/// num_workers * prefetch_factor of them are held, those of the next epoch included.
class DataLoader {
 public:
  DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options);
  /// Stops the workers, wherever they are.
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;

  /// Batches per epoch.
  int64_t size() const;
  /// The next batch; nothing at the end of an epoch, after which the next epoch begins. An error
  /// while reading a batch is thrown when its turn has come; the call after that goes on with the
  /// next batch.
  std::optional<Batch> next();
  /// Makes batch number `batch` (0 to size()) of epoch `epoch` the next one.
  void seek(int64_t epoch, int64_t batch);
  /// The position of the next batch: what `seek` needs to go on from here.
  int64_t epoch() const;
  int64_t batch() const;
  /// Seconds that `next` spent on waiting for data (with no workers: on reading it) so far.
  double wait_seconds() const;

  /// Walks through the rest of the current epoch: `for (const Batch& batch : loader)`.
  class Iterator {
   public:
    explicit Iterator(DataLoader* loader) : loader_(loader) { ++*this; }
    Iterator() = default;
    const Batch& operator*() const { return *batch_; }
    Iterator& operator++() {
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
  Iterator begin() { return Iterator(this); }
  Iterator end() { return {}; }

 private:
  class Workers;
  class Reader;

  std::shared_ptr<const Reader> reader_;
  std::unique_ptr<Workers> workers_;  // none before the first `next`, nor with num_workers = 0
  DataLoaderOptions options_;
  int64_t epoch_ = 0, batch_ = 0;
  double wait_seconds_ = 0;
};

}  // namespace wick::data
