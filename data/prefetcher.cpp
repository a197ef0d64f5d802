#include "wick/data/prefetcher.h"

#include "wick/core/base/check.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/data/batch_color_jitter.h"

namespace wick::data {

Prefetcher::Prefetcher(DataLoader loader, Device device, PrefetcherOptions options)
    : loader_(std::move(loader)),
      device_(device),
      options_(std::move(options)),
      stream_(stream_from_pool(device)),
      epoch_(loader_.epoch()),
      batch_(loader_.batch()) {
  WICK_CHECK(options_.depth > 0, "prefetcher: wrong depth: got ", options_.depth,
             ", expected 1 or more");
}

Prefetcher::Fetched Prefetcher::fetch() {
  Fetched fetched;
  const int64_t epoch = loader_.epoch();
  std::optional<Batch> host = loader_.next();
  fetched.next_epoch = loader_.epoch();
  fetched.next_batch = loader_.batch();
  if (!host) return fetched;
  const StreamGuard guard(stream_);
  Batch batch;
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

// Waits for the loader only while there is nothing to give.
void Prefetcher::fetch_ahead() {
  const int64_t depth = device_.is_cpu() ? 1 : options_.depth;
  while (held() < depth && (ahead_.empty() || loader_.ready())) {
    Fetched fetched;
    try {
      fetched = fetch();
    } catch (...) {
      if (loader_.epoch() == epoch_ && loader_.batch() == batch_) throw;  // a time-out
      fetched.error = std::current_exception();
      fetched.next_epoch = loader_.epoch();
      fetched.next_batch = loader_.batch();
    }
    ahead_.push_back(std::move(fetched));
  }
}

std::optional<Batch> Prefetcher::next() {
  fetch_ahead();
  Fetched fetched = std::move(ahead_.front());
  ahead_.pop_front();
  epoch_ = fetched.next_epoch;
  batch_ = fetched.next_batch;
  if (fetched.error) std::rethrow_exception(std::move(fetched.error));
  if (!fetched.batch || !fetched.arrived) return std::move(fetched.batch);
  const Stream current = current_stream(device_);
  fetched.arrived->block(current);
  for (const Tensor& field : fetched.batch->fields) field.record_stream(current);
  return std::move(fetched.batch);
}

void Prefetcher::seek(int64_t epoch, int64_t batch) {
  // Moves along with the loader.
  const auto follow = [&] {
    ahead_.clear();
    epoch_ = loader_.epoch();
    batch_ = loader_.batch();
  };
  const int64_t epoch_before = loader_.epoch(), batch_before = loader_.batch();
  try {
    loader_.seek(epoch, batch);
  } catch (...) {
    if (loader_.epoch() != epoch_before || loader_.batch() != batch_before) follow();
    throw;
  }
  follow();
}

namespace {

// Of 0 to 1, what `normalize` makes of them.
Tensor normalized(const Tensor& images, const Normalize& normalize) {
  const auto channels = static_cast<int64_t>(normalize.mean().size());
  const auto along_channels = [&](const std::vector<float>& values) {
    return tensor(values, Shape{1, channels, 1, 1}).to(images.device(), /*non_blocking=*/true);
  };
  return (images - along_channels(normalize.mean())) / along_channels(normalize.std());
}

// What is left to be done to batches of `bytes`.
std::function<Batch(Batch, int64_t, int64_t)> finisher(const BytesDataset& bytes, uint64_t seed,
                                                       int64_t part) {
  BatchTransformOptions options = bytes.transform;
  options.seed = seed;
  options.part = part;
  if (!bytes.jitter) {
    return [transform = BatchTransform(bytes.normalize, options)](Batch batch, int64_t epoch,
                                                                  int64_t number) {
      batch.fields[0] = transform.apply(batch[0], epoch, number);
      return batch;
    };
  }
  const Normalize to_unit = Normalize::to_unit(bytes.dataset->fields()[0].shape[0]);
  return [transform = BatchTransform(to_unit, options),
          jitter = BatchColorJitter(*bytes.jitter, seed, part),
          normalize = bytes.normalize](Batch batch, int64_t epoch, int64_t number) {
    const Tensor unit = transform.apply(batch[0], epoch, number);
    batch.fields[0] = normalized(jitter.apply(unit, epoch, number), normalize);
    return batch;
  };
}

}  // namespace

Prefetcher load_ahead(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options,
                      Device device) {
  const std::optional<BytesDataset> bytes =
      device.is_cuda() ? dataset->as_bytes() : std::optional<BytesDataset>();
  DataLoader loader(bytes ? bytes->dataset : std::move(dataset), options);
  PrefetcherOptions ahead;
  const int64_t part = options.batch_sampler ? options.batch_sampler->part() : 0;
  if (bytes) ahead.prepare = finisher(*bytes, loader.seed(), part);
  return Prefetcher(std::move(loader), device, std::move(ahead));
}

}  // namespace wick::data
