#include "wick/data/prefetcher.h"

#include "wick/core/base/check.h"

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
  ahead_.clear();
  loader_.seek(epoch, batch);
  epoch_ = epoch;
  batch_ = batch;
}

}  // namespace wick::data
