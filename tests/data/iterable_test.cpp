#include "wick/data/iterable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "wick/data/prefetcher.h"
#include "wick/data/worker_info.h"
#include "wick/tests/data/loader_testing.h"

namespace wick::data {
namespace {

// Shard s has lengths[s] samples, numbered 100 s, 100 s + 1, ...; field 0 is random.
class Shards : public IterableDataset {
 public:
  explicit Shards(std::vector<int64_t> lengths, int64_t fault = -1)
      : lengths_(std::move(lengths)), fault_(fault) {}
  const std::vector<Field>& fields() const override { return fields_; }
  int num_shards() const override { return static_cast<int>(lengths_.size()); }
  std::string name(int shard) const override { return concat("part-", shard, ".tar"); }
  std::optional<int64_t> size() const override {
    int64_t sum = 0;
    for (const int64_t length : lengths_) sum += length;
    return sum;
  }
  std::unique_ptr<SampleIterator> iterate(int shard, int64_t) const override {
    struct Reader final : SampleIterator {
      Reader(int64_t first, int64_t count, int64_t bad)
          : at(first), end(first + count), fault(bad) {}
      bool next(PhiloxStream random, std::span<void* const> out) override {
        EXPECT_FALSE(busy.exchange(true));  // by one thread at a time
        const int64_t index = at++;
        busy = false;
        if (index >= end) return false;
        WICK_CHECK(index != fault, "damaged record");
        for (int i = 0; i < 4; ++i) static_cast<float*>(out[0])[i] = random.uniform();
        std::memcpy(out[1], &index, sizeof index);
        return true;
      }
      int64_t at, end, fault;
      std::atomic<bool> busy{false};
    };
    return std::make_unique<Reader>(100 * shard, lengths_[static_cast<size_t>(shard)], fault_);
  }

 private:
  std::vector<int64_t> lengths_;
  int64_t fault_;
  std::vector<Field> fields_ = {{{4}, kFloat32, MemoryFormat::kContiguous},
                                {{}, kInt64, MemoryFormat::kContiguous}};
};

using Walk = std::vector<std::vector<int64_t>>;

Walk walk(DataLoader& loader) {
  Walk seen;
  for (const Batch& batch : loader) seen.push_back(indices(batch));
  return seen;
}

TEST(IterableDataset, ComesInItsOwnOrder) {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(std::make_shared<Shards>(std::vector<int64_t>{5}),
                      {.batch_size = 2, .num_workers = workers});
    EXPECT_EQ(loader.size(), 3);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(loader.epoch(), epoch);
      EXPECT_EQ(walk(loader), (Walk{{0, 1}, {2, 3}, {4}}));
    }
    DataLoader full(std::make_shared<Shards>(std::vector<int64_t>{5}),
                    {.batch_size = 2, .num_workers = workers, .drop_last = true});
    EXPECT_EQ(full.size(), 2);
    EXPECT_EQ(walk(full), (Walk{{0, 1}, {2, 3}}));
    EXPECT_EQ(walk(full), (Walk{{0, 1}, {2, 3}}));
  }
}

TEST(IterableDataset, ShardsTakeTurnsForAnyNumberOfWorkers) {
  const auto dataset = std::make_shared<Shards>(std::vector<int64_t>{3, 0, 5, 2});
  std::vector<Bytes> expected;
  for (const int workers : {0, 1, 2, 7, kAuto}) {
    for (const bool persistent : {true, false}) {
      DataLoaderOptions options{.batch_size = 2, .num_workers = workers, .seed = 0};
      if (workers != 0) options.persistent_workers = persistent;
      DataLoader loader(dataset, options);
      EXPECT_EQ(walk(loader), (Walk{{0, 1}, {200, 201}, {300, 301}, {2}, {202, 203}, {204}}));
      const std::vector<Bytes> got = take(loader, 20);
      if (expected.empty()) expected = got;
      EXPECT_EQ(got, expected) << workers;
    }
  }
  EXPECT_NE(expected[0], expected[7]);  // random numbers differ between epochs
}

TEST(IterableDataset, GoesOnFromAnyPosition) {
  const auto dataset = std::make_shared<Shards>(std::vector<int64_t>{3, 0, 5, 2});
  DataLoader whole(dataset, {.batch_size = 2, .seed = 0});
  const std::vector<Bytes> expected = take(whole, 21);
  for (const int workers : {0, 2}) {
    for (int start = 0; start < 14; ++start) {
      DataLoader first(dataset, {.batch_size = 2, .num_workers = workers, .seed = 0});
      take(first, start);
      DataLoader second(dataset, {.batch_size = 2, .num_workers = workers, .seed = 0});
      second.seek(first.epoch(), first.batch());
      EXPECT_EQ(take(second, 7),
                std::vector<Bytes>(expected.begin() + start, expected.begin() + start + 7))
          << start;
    }
  }
  for (const int workers : {0, 2}) {
    DataLoader loader(dataset, {.batch_size = 2, .num_workers = workers, .seed = 0});
    take(loader, 10);
    expect_error([&] { loader.seek(0, 9); }, {"seek", "got 9", "0 to 6"});
    EXPECT_EQ(loader.epoch(), 0);
    EXPECT_EQ(loader.batch(), 0);
    EXPECT_EQ(take(loader, 9), std::vector<Bytes>(expected.begin(), expected.begin() + 9));
    Prefetcher ahead(DataLoader(dataset, {.batch_size = 2, .num_workers = workers, .seed = 0}),
                     kCpu);
    for (int i = 0; i < 10; ++i) ahead.next();
    expect_error([&] { ahead.seek(0, 9); }, {"seek", "got 9", "0 to 6"});
    EXPECT_EQ(ahead.epoch(), 0);
    EXPECT_EQ(ahead.batch(), 0);
    EXPECT_EQ(bytes(*ahead.next()), expected[0]);
  }
}

TEST(IterableDataset, ErrorsComeInTurnAndEndTheirShard) {
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<Shards>(std::vector<int64_t>{6, 4}, 3),
                      {.batch_size = 2, .num_workers = workers});
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      EXPECT_EQ(indices(*loader.next()), (std::vector<int64_t>{0, 1}));
      EXPECT_EQ(indices(*loader.next()), (std::vector<int64_t>{100, 101}));
      expect_error([&] { loader.next(); },
                   {"shard 0 (part-0.tar): damaged record", concat("batch 1 of epoch ", epoch)});
      EXPECT_EQ(indices(*loader.next()), (std::vector<int64_t>{102, 103}));
      EXPECT_FALSE(loader.next());
    }
    DataLoader skipping(std::make_shared<Shards>(std::vector<int64_t>{6, 4}, 3),
                        {.batch_size = 2, .num_workers = workers, .on_error = OnError::kSkip});
    EXPECT_EQ(walk(skipping), (Walk{{0, 1}, {100, 101}, {2, 4}, {102, 103}, {5}}));
    EXPECT_EQ(skipping.skipped(), 1);
  }
}

TEST(IterableDataset, SamplesAloneAndCollated) {
  for (const int workers : {0, 2}) {
    DataLoader alone(std::make_shared<Shards>(std::vector<int64_t>{2}),
                     {.batch_size = {}, .num_workers = workers});
    EXPECT_EQ((*alone.next())[1].rank(), 0);
    EXPECT_EQ((*alone.next())[1].item<int64_t>(), 1);
    EXPECT_FALSE(alone.next());
    const auto sums = [](std::vector<Sample> samples) {
      int64_t sum = 0;
      for (const Sample& sample : samples) sum += sample[1].item<int64_t>();
      return Batch{{scalar_tensor(sum, kInt64)}};
    };
    DataLoader collated(std::make_shared<Shards>(std::vector<int64_t>{5}),
                        {.batch_size = 2, .num_workers = workers, .collate_fn = sums});
    for (const int64_t sum : {1, 5, 4}) EXPECT_EQ((*collated.next())[0].item<int64_t>(), sum);
    EXPECT_FALSE(collated.next());
  }
}

TEST(IterableDataset, DecidesOnItsOrderItself) {
  const auto make = [](const DataLoaderOptions& options) {
    DataLoader(std::make_shared<Shards>(std::vector<int64_t>{5}), options);
  };
  const auto sampler = std::make_shared<SequentialSampler>(5);
  expect_error([&] { make({.shuffle = true}); }, {"got shuffle for an iterable"});
  expect_error([&] { make({.sampler = sampler}); }, {"got sampler for an iterable"});
  expect_error([&] { make({.batch_sampler = std::make_shared<BatchSampler>(sampler, 2, false)}); },
               {"got batch_sampler for an iterable"});
  expect_error([&] { make({.batch_size = 0}); }, {"batch_size"});
}

// Delivers nothing until it is told that nobody wants it.
class Silent final : public Shards {
 public:
  Silent() : Shards({4, 4}) {}
  std::unique_ptr<SampleIterator> iterate(int, int64_t) const override {
    struct Wait final : SampleIterator {
      bool next(PhiloxStream, std::span<void* const>) override {
        while (!get_worker_info()->stopping()) std::this_thread::yield();
        return false;
      }
    };
    return std::make_unique<Wait>();
  }
};

TEST(IterableDataset, ASilentSourceTimesOutAndCanBeDropped) {
  DataLoader loader(std::make_shared<Silent>(),
                    {.batch_size = 2, .num_workers = 3, .timeout = 0.05});
  expect_error([&] { loader.next(); },
               {"timed out", "no batch 0 of epoch 0", "reads shard 0 (part-0.tar)"});
}

// Says that it has -1 samples, and has no iterators.
struct Hollow final : IterableDataset {
  std::unique_ptr<SampleIterator> iterate(int, int64_t) const override { return nullptr; }
  std::optional<int64_t> size() const override { return -1; }
};

TEST(IterableDataset, WithoutIteratorsIsAnError) {
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<Hollow>(), {.batch_size = 2, .num_workers = workers});
    expect_error([&] { loader.next(); }, {"batch 0 of epoch 0", "iterate: the walk", "null"});
    EXPECT_FALSE(loader.next());
    expect_error([&] { loader.size(); }, {"wrong size", "got -1"});
  }
}

}  // namespace
}  // namespace wick::data
