#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "wick/core/stream.h"
#include "wick/data/loader.h"

namespace wick::data {

/// Options of Prefetcher. Error for a `depth` below 1.
struct PrefetcherOptions {
  int64_t depth = 2;  // batches on their way to the device or waiting there
  /// What the device does to each batch that has arrived, of an epoch and of a number in it:
  /// convert, crop, flip, normalise (wick/data/batch_transform.h). Runs on the prefetcher's stream.
  std::function<Batch(Batch, int64_t epoch, int64_t batch)> prepare = {};
};

/// Copies the next batches of a loader to a GPU on a stream of its own, while the GPU works on
/// the last ones; with `pin_memory` the host does not wait for it either. A batch is ordered before
/// what its taker then runs on the current stream by an event, and its memory is used again only
/// after that. On the CPU it copies nothing.
class Prefetcher {
 public:
  Prefetcher(DataLoader loader, Device device, PrefetcherOptions options = {});
  Prefetcher(Prefetcher&&) noexcept = default;

  /// As DataLoader's; fields are on the device.
  std::optional<Batch> next();
  /// The same as DataLoader's, of the batch that `next` will give: the loader itself is further on.
  /// After an error too, these tell which one that is.
  void seek(int64_t epoch, int64_t batch, std::optional<uint64_t> seed = {});
  int64_t epoch() const { return epoch_; }
  int64_t batch() const { return batch_; }
  std::optional<uint64_t> seed() const { return seed_; }
  int64_t size() const { return loader_.size(); }  // batches of an epoch
  /// Seconds that the host waited for the loader.
  double wait_seconds() const { return loader_.wait_seconds(); }
  /// Batches fetched ahead.
  int64_t held() const { return static_cast<int64_t>(ahead_.size()); }
  const DataLoader& loader() const { return loader_; }  // which is ahead of what next() gave

 private:
  // A batch (none at the end of an epoch) and the loader's position behind it, or the error in
  // place of it.
  struct Fetched {
    std::optional<Batch> batch;
    std::optional<Event> arrived;
    std::exception_ptr error;
    int64_t next_epoch = 0, next_batch = 0;
    std::optional<uint64_t> next_seed;
  };
  void note_position(Fetched& fetched) const;
  Fetched fetch();
  void fetch_ahead();

  DataLoader loader_;
  Device device_;
  PrefetcherOptions options_;
  Stream stream_;
  std::vector<Fetched> ahead_;  // few; the first is next
  int64_t epoch_, batch_;
  std::optional<uint64_t> seed_;
};

/// The batches of `dataset` on `device`. A GPU does the end of the work itself, where the data set
/// can leave it (wick/data/device_work.h): of images, which then come as bytes, it is cropping,
/// flipping, changing colours, erasing and normalising.
Prefetcher load_ahead(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options,
                      Device device);

}  // namespace wick::data
