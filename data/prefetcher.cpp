#include "wick/data/prefetcher.h"

#include "wick/core/base/check.h"
#include "wick/data/device_work.h"

namespace wick::data {

Prefetcher::Prefetcher(DataLoader loader, Device device, PrefetcherOptions options)
    : loader_(std::move(loader)),
      device_(device),
      options_(std::move(options)),
      stream_(stream_from_pool(device)),
      epoch_(loader_.epoch()),
      batch_(loader_.batch()),
      seed_(loader_.seed()) {
  WICK_CHECK(options_.depth > 0, "prefetcher: wrong depth: got ", options_.depth,
             ", expected 1 or more");
}

void Prefetcher::note_position(Fetched& fetched) const {
  fetched.next_epoch = loader_.epoch();
  fetched.next_batch = loader_.batch();
  fetched.next_seed = loader_.seed();
}

Prefetcher::Fetched Prefetcher::fetch() {
  Fetched fetched;
  const int64_t epoch = loader_.epoch();
  std::optional<Batch> host = loader_.next();
  note_position(fetched);
  if (!host) return fetched;
  const StreamGuard guard(stream_);
  Batch batch;
  batch.seed = host->seed;
  for (const Tensor& field : host->fields) {
    batch.fields.push_back(field.to(device_, /*non_blocking=*/true));
  }
  if (options_.prepare) batch = options_.prepare(std::move(batch), epoch, loader_.batch() - 1);
  if (device_.is_cuda()) {
    fetched.arrived.emplace(device_);
    fetched.arrived->record(stream_);
  }
  fetched.batch = std::move(batch);
  return fetched;
}

// Waits for the loader only while there is nothing to give, and lets it draw an epoch's seed only
// when its first batch is asked for: at a moment that no thread's pace decides on.
void Prefetcher::fetch_ahead() {
  const int64_t depth = device_.is_cpu() ? 1 : options_.depth;
  while (held() < depth && (ahead_.empty() || (loader_.seed() && loader_.ready()))) {
    Fetched fetched;
    try {
      fetched = fetch();
    } catch (...) {
      if (loader_.epoch() == epoch_ && loader_.batch() == batch_) throw;  // a time-out
      fetched.error = std::current_exception();
      note_position(fetched);
    }
    ahead_.push_back(std::move(fetched));
  }
}

std::optional<Batch> Prefetcher::next() {
  fetch_ahead();
  Fetched fetched = std::move(ahead_.front());
  ahead_.erase(ahead_.begin());
  epoch_ = fetched.next_epoch;
  batch_ = fetched.next_batch;
  seed_ = fetched.next_seed;
  if (fetched.error) std::rethrow_exception(std::move(fetched.error));
  if (!fetched.batch || !fetched.arrived) return std::move(fetched.batch);
  const Stream current = current_stream(device_);
  fetched.arrived->block(current);
  for (const Tensor& field : fetched.batch->fields) field.record_stream(current);
  return std::move(fetched.batch);
}

void Prefetcher::seek(int64_t epoch, int64_t batch, std::optional<uint64_t> seed) {
  // Moves along with the loader.
  const auto follow = [&] {
    ahead_.clear();
    epoch_ = loader_.epoch();
    batch_ = loader_.batch();
    seed_ = loader_.seed();
  };
  const int64_t epoch_before = loader_.epoch(), batch_before = loader_.batch();
  try {
    loader_.seek(epoch, batch, seed ? seed : epoch == epoch_ ? seed_ : seed);
  } catch (...) {
    if (loader_.epoch() != epoch_before || loader_.batch() != batch_before) follow();
    throw;
  }
  follow();
}

Prefetcher load_ahead(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options,
                      Device device) {
  PrefetcherOptions ahead;
  const auto* source = dynamic_cast<const DeviceWorkSource*>(dataset.get());
  if (source != nullptr && device.is_cuda()) {
    const int64_t part = options.batch_sampler ? options.batch_sampler->part() : 0;
    if (std::optional<DeviceWork> work = source->device_work(part)) {
      dataset = std::move(work->dataset);
      ahead.prepare = std::move(work->finish);
    }
  }
  return Prefetcher(DataLoader(std::move(dataset), options), device, std::move(ahead));
}

}  // namespace wick::data
