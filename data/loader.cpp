#include "wick/data/loader.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "wick/core/base/parallel.h"

namespace wick::data {

namespace {

// Keeps the streams of samples apart from those that models draw from the same seed.
constexpr uint64_t kSeedOfData = 0x6c6f61646572;  // "loader"
// The order of an epoch uses the sequence that no sample has.
constexpr uint64_t kOrderSequence = ~uint64_t{0};

// The random words of one sample (or of the order) in one epoch: 2^34 of them.
PhiloxStream stream_of(uint64_t seed, int64_t epoch, uint64_t sequence) {
  return PhiloxStream(seed ^ kSeedOfData, sequence, static_cast<uint64_t>(epoch) << 32);
}

using Order = std::vector<int64_t>;

Order shuffled(int64_t n, uint64_t seed, int64_t epoch) {
  Order order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  PhiloxStream random = stream_of(seed, epoch, kOrderSequence);
  for (size_t i = order.size(); i > 1; --i) {
    const uint64_t word = uint64_t{random.next()} << 32;
    std::swap(order[i - 1], order[(word | random.next()) % i]);
  }
  return order;
}

}  // namespace

// Makes any batch of any epoch. Used by several threads at once.
class DataLoader::Reader {
 public:
  Reader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
      : dataset_(std::move(dataset)), options_(options) {
    const int64_t n = dataset_->size(), b = options_.batch_size;
    batches_ = options_.drop_last ? n / b : n / b + (n % b != 0);
  }

  int64_t batches() const { return batches_; }

  /// Gives up, with whatever is there, once `stop` is set.
  Batch read(int64_t epoch, int64_t index, const std::atomic<bool>& stop) const {
    const std::shared_ptr<const Order> order = order_of(epoch);
    const int64_t first = index * options_.batch_size;
    const int64_t count = std::min(options_.batch_size, dataset_->size() - first);
    Batch batch;
    std::vector<char*> starts;
    std::vector<int64_t> bytes;
    for (const Field& field : dataset_->fields()) {
      Shape shape = field.shape;
      shape.insert(0, count);
      batch.fields.push_back(empty(shape, field.dtype, kCpu, field.format));
      starts.push_back(static_cast<char*>(batch.fields.back().raw_data()));
      bytes.push_back(field.shape.numel() * size_of(field.dtype));
    }
    std::vector<void*> places(starts.size());
    for (int64_t i = 0; i < count && !stop.load(std::memory_order_relaxed); ++i) {
      const int64_t sample = order ? (*order)[static_cast<size_t>(first + i)] : first + i;
      for (size_t f = 0; f < places.size(); ++f) places[f] = starts[f] + i * bytes[f];
      dataset_->read(sample, stream_of(options_.seed, epoch, static_cast<uint64_t>(sample)),
                     places);
    }
    return batch;
  }

 private:
  // The samples of an epoch in their order; null for their own. The last two are kept, since
  // workers read ahead into the next epoch.
  std::shared_ptr<const Order> order_of(int64_t epoch) const {
    if (!options_.shuffle) return nullptr;
    const std::lock_guard lock(mutex_);
    Kept& kept = kept_[epoch & 1];
    if (kept.epoch != epoch || !kept.order) {
      kept.order = std::make_shared<const Order>(shuffled(dataset_->size(), options_.seed, epoch));
      kept.epoch = epoch;
    }
    return kept.order;
  }

  struct Kept {
    int64_t epoch = -1;
    std::shared_ptr<const Order> order;
  };

  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  int64_t batches_;
  mutable std::mutex mutex_;
  mutable Kept kept_[2];
};

// Threads that fill a ring of batches. Batches are numbered through all epochs.
class DataLoader::Workers {
 public:
  Workers(std::shared_ptr<const Reader> reader, const DataLoaderOptions& options, int64_t first)
      : reader_(std::move(reader)),
        ring_(static_cast<size_t>(options.num_workers) *
              static_cast<size_t>(options.prefetch_factor)),
        wanted_(first),
        started_(first) {
    try {
      for (int i = 0; i < options.num_workers; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {
      join();
      throw;
    }
  }
  ~Workers() { join(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Waits for the next batch in turn. Throws what reading it threw.
  Batch take() {
    Slot result;
    {
      std::unique_lock lock(mutex_);
      Slot& slot = slot_of(wanted_);
      filled_.wait(lock, [&] { return slot.full; });
      result = std::move(slot);
      slot = Slot();
      ++wanted_;
    }
    freed_.notify_one();
    if (result.error) std::rethrow_exception(std::move(result.error));
    return std::move(result.batch);
  }

 private:
  struct Slot {
    bool full = false;
    Batch batch;
    std::exception_ptr error;
  };

  Slot& slot_of(int64_t number) { return ring_[static_cast<size_t>(number) % ring_.size()]; }

  void work() {
    set_num_threads(1);
    while (true) {
      int64_t number = 0;
      {
        std::unique_lock lock(mutex_);
        freed_.wait(
            lock, [&] { return stop_ || started_ < wanted_ + static_cast<int64_t>(ring_.size()); });
        if (stop_) return;
        number = started_++;
      }
      Slot result;
      result.full = true;
      try {
        result.batch =
            reader_->read(number / reader_->batches(), number % reader_->batches(), stop_);
      } catch (...) {
        result.error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        slot_of(number) = std::move(result);
      }
      filled_.notify_one();
    }
  }

  void join() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    freed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::shared_ptr<const Reader> reader_;
  std::mutex mutex_;
  std::condition_variable filled_, freed_;
  std::vector<Slot> ring_;
  int64_t wanted_;   // the batch that is next to be taken
  int64_t started_;  // the batch that is next to be read
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options)
    : options_(options) {
  WICK_CHECK(dataset != nullptr, "data loader: got no data set");
  WICK_CHECK(options.batch_size > 0, "data loader: wrong batch_size: got ", options.batch_size,
             ", expected 1 or more");
  WICK_CHECK(options.num_workers >= 0 && options.num_workers <= 1024,
             "data loader: wrong num_workers: got ", options.num_workers, ", expected 0 to 1024");
  WICK_CHECK(options.prefetch_factor > 0 && options.prefetch_factor <= 1024,
             "data loader: wrong prefetch_factor: got ", options.prefetch_factor,
             ", expected 1 to 1024");
  reader_ = std::make_shared<const Reader>(std::move(dataset), options);
}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;

int64_t DataLoader::size() const { return reader_->batches(); }
int64_t DataLoader::epoch() const { return epoch_; }
int64_t DataLoader::batch() const { return batch_; }
double DataLoader::wait_seconds() const { return wait_seconds_; }

std::optional<Batch> DataLoader::next() {
  if (batch_ >= size()) {
    ++epoch_;
    batch_ = 0;
    return std::nullopt;
  }
  struct Stopwatch {
    double& seconds;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    ~Stopwatch() {
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
  } stopwatch{wait_seconds_};
  const int64_t epoch = epoch_, batch = batch_++;
  if (options_.num_workers == 0) return reader_->read(epoch, batch, false);
  if (!workers_) {
    workers_ = std::make_unique<Workers>(reader_, options_, epoch * size() + batch);
  }
  return workers_->take();
}

void DataLoader::seek(int64_t epoch, int64_t batch) {
  WICK_CHECK(epoch >= 0, "data loader: seek: wrong epoch: got ", epoch, ", expected 0 or more");
  WICK_CHECK(batch >= 0 && batch <= size(), "data loader: seek: wrong batch: got ", batch,
             ", expected 0 to ", size());
  if (epoch == epoch_ && batch == batch_) return;
  workers_.reset();  // what they read ahead is of no use there
  epoch_ = epoch;
  batch_ = batch;
}

}  // namespace wick::data
