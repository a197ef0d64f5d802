#include "wick/data/loader.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <system_error>
#include <thread>

#include "wick/core/base/check.h"
#include "wick/core/base/philox.h"
#include "wick/core/profile/span.h"
#include "wick/core/random.h"
#include "wick/data/detail/loader_reader.h"
#include "wick/data/detail/loader_tuner.h"
#include "wick/data/detail/loader_workers.h"

namespace wick::data {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void check_workers(const DataLoaderOptions& o) {
  constexpr int kMost = 1024;
  WICK_CHECK((o.num_workers >= 0 && o.num_workers <= kMost) || o.num_workers == kAuto,
             "data loader: wrong num_workers: got ", o.num_workers, ", expected 0 to ", kMost,
             " or kAuto");
  WICK_CHECK(o.timeout >= 0 && std::isfinite(o.timeout), "data loader: wrong timeout: got ",
             o.timeout, ", expected 0 or more seconds");
  WICK_CHECK(!o.prefetch_factor || (*o.prefetch_factor > 0 && *o.prefetch_factor <= kMost),
             "data loader: wrong prefetch_factor: got ", *o.prefetch_factor, ", expected 1 to ",
             kMost);
  if (o.num_workers != 0) return;
  WICK_CHECK(!o.prefetch_factor, "data loader: prefetch_factor needs workers: got ",
             *o.prefetch_factor, " and num_workers = 0");
  WICK_CHECK(!o.persistent_workers.value_or(false),
             "data loader: persistent_workers needs workers: got num_workers = 0");
  WICK_CHECK(o.timeout == 0, "data loader: timeout needs workers: got ", o.timeout,
             " s and num_workers = 0");
}

void check_sampling(const DataLoaderOptions& o) {
  WICK_CHECK(o.batch_size.value_or(1) > 0, "data loader: wrong batch_size: got ", *o.batch_size,
             ", expected 1 or more");
  WICK_CHECK(o.batch_size || !o.drop_last,
             "data loader: got drop_last without a batch_size: single samples have no last batch");
  WICK_CHECK(!o.sampler || !o.shuffle,
             "data loader: got sampler and shuffle: the sampler decides on the order");
  WICK_CHECK(!o.batch_sampler || (o.batch_size == 1 && !o.shuffle && !o.sampler && !o.drop_last),
             "data loader: got batch_sampler and batch_size, shuffle, sampler or drop_last: the "
             "batch sampler decides on all of these");
  WICK_CHECK(o.generator == nullptr || !o.seed,
             "data loader: got generator and seed: seeds are drawn from the generator");
}

DataLoaderOptions resolve(DataLoaderOptions options) {
  check_workers(options);
  check_sampling(options);
  const bool is_shared = (options.sampler && options.sampler->is_shared()) ||
                         (options.batch_sampler && options.batch_sampler->is_shared());
  if (is_shared && options.generator == nullptr && !options.seed) options.seed = 0;
  return options;
}

// For work that does not only compute, somewhat more than there are cores.
int most_workers(const DataLoaderOptions& options) {
  constexpr int kMost = 64;
  if (options.num_workers != kAuto) return options.num_workers;
  return std::clamp(2 * static_cast<int>(std::thread::hardware_concurrency()), 2, kMost);
}

std::unique_ptr<loading::WorkerTuner> make_tuner(const DataLoaderOptions& options) {
  if (options.num_workers != kAuto) return nullptr;
  return std::make_unique<loading::WorkerTuner>(most_workers(options));
}

template <class D>
std::function<std::shared_ptr<loading::Reader>()> reader_maker(std::shared_ptr<const D> dataset,
                                                               const DataLoaderOptions& options) {
  using Made =
      std::conditional_t<std::is_same_v<D, Dataset>, loading::MapReader, loading::IterableReader>;
  WICK_CHECK(dataset != nullptr, "data loader: got no data set");
  return
      [dataset = std::move(dataset), options] { return std::make_shared<Made>(dataset, options); };
}

DataLoaderOptions resolve_for_iterable(const DataLoaderOptions& options) {
  WICK_CHECK(!options.shuffle && !options.sampler && !options.batch_sampler, "data loader: got ",
             options.shuffle   ? "shuffle"
             : options.sampler ? "sampler"
                               : "batch_sampler",
             " for an iterable data set: it decides on the order itself");
  return resolve(options);
}

}  // namespace

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
    : options_(resolve(options)),
      make_reader_(reader_maker(std::move(dataset), options_)),
      reader_(make_reader_()),
      tuner_(make_tuner(options_)),
      seed_(options_.seed) {}

DataLoader::DataLoader(std::shared_ptr<const IterableDataset> dataset,
                       const DataLoaderOptions& options)
    : options_(resolve_for_iterable(options)),
      make_reader_(reader_maker(std::move(dataset), options_)),
      reader_(make_reader_()),
      tuner_(make_tuner(options_)),
      seed_(options_.seed) {}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;

int64_t DataLoader::size() const { return reader_->size(); }

int DataLoader::num_workers() const { return tuner_ ? tuner_->workers() : options_.num_workers; }

bool DataLoader::ready() const {
  if (workers_) workers_->check_process();
  const std::optional<int64_t> tasks = reader_->tasks();
  return (tasks && task_ >= *tasks) || (workers_ && workers_->ready());
}

loading::Result DataLoader::take() {
  if (options_.num_workers == 0) {
    static const std::atomic<bool> never{false};
    loading::Status status("", never);
    return reader_->read(epoch_, task_, status);
  }
  if (!workers_) {
    workers_ = std::make_unique<loading::Workers>(
        reader_,
        loading::Workers::Options{.count = num_workers(),
                                  .most = most_workers(options_),
                                  .prefetch = options_.prefetch_factor.value_or(2),
                                  .in_order = options_.in_order || !reader_->tasks(),
                                  .first = reader_->number(epoch_, task_),
                                  .end = reads_past_epochs() ? std::numeric_limits<int64_t>::max()
                                                             : reader_->number(epoch_ + 1, 0),
                                  .init = options_.worker_init_fn});
  }
  return workers_->take(options_.timeout);
}

bool DataLoader::reads_past_epochs() const {
  return options_.seed && options_.persistent_workers.value_or(true) && reader_->tasks();
}

void DataLoader::draw_seed() {
  if (seed_) return;
  Generator& generator =
      options_.generator != nullptr ? *options_.generator : default_generator(kCpu);
  const RandomKey key = generator.next();
  const Uint32x4 words = philox4x32(key.seed, 0, key.offset);
  seed_ = uint64_t{words.x} << 32 | words.y;
  reader_->set_seed(*seed_);
  if (workers_) workers_->jump(reader_->number(epoch_, 0), reader_->number(epoch_ + 1, 0));
}

std::optional<Batch> DataLoader::next() {
  const profile::Span span(profile::EventKind::kLoaderWait, "DataLoader.next");
  const auto start = Clock::now();
  if (workers_) workers_->check_process();
  draw_seed();
  const std::optional<int64_t> tasks = reader_->tasks();
  while (true) {
    if (tasks && task_ >= *tasks) break;
    const auto asked = Clock::now();
    struct Waited {
      double& seconds;
      Clock::time_point since;
      ~Waited() { seconds += seconds_since(since); }
    };
    loading::Result result = [&] {
      const Waited waited{wait_seconds_, asked};
      return take();
    }();
    ++task_;
    read_seconds_ += result.seconds;
    skipped_ += result.skipped;
    if (result.skipped > 0) last_skipped_ = std::move(result.last_skipped);
    if (result.ended && !result.error) {
      if (++ended_shards_ == reader_->shards()) break;
      continue;
    }
    ended_shards_ = 0;
    ++batch_;
    if (tuner_ && last_given_) {
      const double other = std::chrono::duration<double>(start - *last_given_).count();
      const int before = tuner_->workers();
      const int now = tuner_->note(result.seconds, seconds_since(start), other);
      if (now != before && workers_) {
        try {
          workers_->set_count(now);
        } catch (const std::system_error&) {  // there are no more threads
          tuner_->keep_to(before);
        }
      }
    }
    last_given_ = Clock::now();
    if (result.error) std::rethrow_exception(std::move(result.error));
    if (result.missing) continue;
    result.batch.seed = *seed_;
    return std::move(result.batch);
  }
  end_epoch();
  return std::nullopt;
}

void DataLoader::end_epoch() {
  ++epoch_;
  batch_ = task_ = 0;
  ended_shards_ = 0;
  last_given_.reset();
  seed_ = options_.seed;
  if (!workers_) return;
  if (!options_.persistent_workers.value_or(true)) {
    workers_.reset();
  } else if (seed_ && !reads_past_epochs()) {
    workers_->jump(reader_->number(epoch_, 0), reader_->number(epoch_ + 1, 0));
  }
}

void DataLoader::seek(int64_t epoch, int64_t batch, std::optional<uint64_t> seed) {
  WICK_CHECK(epoch >= 0 && epoch <= reader_->last_epoch(), "data loader: seek: wrong epoch: got ",
             epoch, ", expected 0 to ", reader_->last_epoch());
  const std::optional<int64_t> tasks = reader_->tasks();
  WICK_CHECK(batch >= 0 && (!tasks || batch <= *tasks), "data loader: seek: wrong batch: got ",
             batch, ", expected 0 to ", tasks.value_or(0));
  WICK_CHECK(!seed || !options_.seed || seed == options_.seed,
             "data loader: seek: wrong seed: got ", seed.value_or(0),
             ", expected that of all epochs, ", options_.seed.value_or(0));
  if (!seed) seed = epoch == epoch_ ? seed_ : options_.seed;
  if (epoch == epoch_ && batch == batch_ && seed == seed_) return;
  std::shared_ptr<loading::Reader> reader = make_reader_();
  workers_.reset();  // what they read ahead is of no use there
  begin(epoch, seed, std::move(reader));
  if (tasks) {
    batch_ = task_ = batch;
    return;
  }
  if (batch > 0) draw_seed();
  try {
    skip_to(batch);
  } catch (...) {
    begin(epoch, seed_, make_reader_());
    throw;
  }
}

void DataLoader::begin(int64_t epoch, std::optional<uint64_t> seed,
                       std::shared_ptr<loading::Reader> reader) {
  reader_ = std::move(reader);
  epoch_ = epoch;
  seed_ = seed;
  if (seed) reader_->set_seed(*seed);
  batch_ = task_ = 0;
  ended_shards_ = 0;
  last_given_.reset();
}

void DataLoader::skip_to(int64_t batch) {
  static const std::atomic<bool> never{false};
  loading::Status status("", never);
  while (batch_ < batch) {
    const loading::Result result = reader_->read(epoch_, task_++, status);
    if (result.ended && !result.error) {
      WICK_CHECK(++ended_shards_ < reader_->shards(), "data loader: seek: wrong batch: got ", batch,
                 ", expected 0 to ", batch_);
    } else {
      ended_shards_ = 0;
      ++batch_;
    }
  }
}

}  // namespace wick::data
