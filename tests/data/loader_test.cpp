#include "wick/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "wick/core/base/parallel.h"
#include "wick/tests/data/data_testing.h"

namespace wick::data {
namespace {

// Samples whose field 0 is a float "image" [2, 3, 2] of random values, and field 1 their index.
class RandomDataset : public Dataset {
 public:
  explicit RandomDataset(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    for (int i = 0; i < 12; ++i) static_cast<float*>(out[0])[i] = random.uniform();
    std::memcpy(out[1], &index, sizeof index);
  }

 private:
  int64_t size_;
  std::vector<Field> fields_ = {{{2, 3, 2}, kFloat32, MemoryFormat::kChannelsLast},
                                {{}, kInt64, MemoryFormat::kContiguous}};
};

// Throws at one sample.
class FaultyDataset final : public RandomDataset {
 public:
  FaultyDataset(int64_t size, int64_t fault) : RandomDataset(size), fault_(fault) {}
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    WICK_CHECK(index != fault_, "/data/", index, ".jpg: damaged JPEG");
    RandomDataset::read(index, random, out);
  }

 private:
  int64_t fault_;
};

std::vector<int64_t> indices(const Batch& batch) {
  const auto* first = batch[1].data<int64_t>();
  return {first, first + batch.size()};
}

Bytes bytes(const Batch& batch) {
  Bytes all;
  for (const Tensor& field : batch.fields) {
    const auto* first = static_cast<const uint8_t*>(field.raw_data());
    all.insert(all.end(), first, first + field.numel() * size_of(field.dtype()));
  }
  return all;
}

DataLoader loader_of(int64_t samples, const DataLoaderOptions& options) {
  return {std::make_shared<RandomDataset>(samples), options};
}

// The bytes of the next `count` batches, ends of epochs included as empty ones.
std::vector<Bytes> take(DataLoader& loader, int count) {
  std::vector<Bytes> all;
  for (int i = 0; i < count; ++i) {
    const std::optional<Batch> batch = loader.next();
    all.push_back(batch ? bytes(*batch) : Bytes());
  }
  return all;
}

TEST(DataLoader, WalksInOrderAndEndsEachEpoch) {
  DataLoader loader = loader_of(7, {.batch_size = 3});
  EXPECT_EQ(loader.size(), 3);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(loader.epoch(), epoch);
    std::vector<std::vector<int64_t>> seen;
    for (const Batch& batch : loader) seen.push_back(indices(batch));
    EXPECT_EQ(seen, (std::vector<std::vector<int64_t>>{{0, 1, 2}, {3, 4, 5}, {6}}));
  }
}

TEST(DataLoader, DropsTheLastBatchOnlyIfAskedAndNotFull) {
  const auto batches = [](int64_t samples, bool drop_last) {
    return loader_of(samples, {.batch_size = 3, .drop_last = drop_last}).size();
  };
  EXPECT_EQ(batches(7, true), 2);
  EXPECT_EQ(batches(6, true), 2);
  EXPECT_EQ(batches(6, false), 2);
  EXPECT_EQ(batches(2, true), 0);
  EXPECT_EQ(batches(0, false), 0);
  for (const int workers : {0, 2}) {
    DataLoader empty_one = loader_of(0, {.batch_size = 3, .num_workers = workers});
    EXPECT_FALSE(empty_one.next());
    EXPECT_FALSE(empty_one.next());
  }
}

TEST(DataLoader, StacksFieldsInTheirLayouts) {
  DataLoader loader = loader_of(5, {.batch_size = 4});
  const Batch batch = *loader.next();
  EXPECT_EQ(batch[0].shape(), (Shape{4, 2, 3, 2}));
  EXPECT_EQ(batch[0].strides(), (Strides{12, 1, 4, 2}));
  EXPECT_EQ(batch[0].dtype(), kFloat32);
  EXPECT_EQ(batch[1].shape(), Shape{4});
  EXPECT_EQ(batch[1].dtype(), kInt64);
}

TEST(DataLoader, ShuffleIsAPermutationThatDiffersPerEpochAndSeed) {
  std::set<std::vector<int64_t>> orders;
  for (const uint64_t seed : {1u, 2u}) {
    DataLoader loader = loader_of(50, {.batch_size = 8, .shuffle = true, .seed = seed});
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> order;
      for (const Batch& batch : loader) {
        for (const int64_t index : indices(batch)) order.push_back(index);
      }
      orders.insert(order);
      std::sort(order.begin(), order.end());
      for (int64_t i = 0; i < 50; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
    }
  }
  EXPECT_EQ(orders.size(), 6u);
}

TEST(DataLoader, ShufflePutsEverySampleEverywhereAlike) {
  constexpr int kEpochs = 4000, kSamples = 4;
  int counts[kSamples][kSamples] = {};
  DataLoader loader = loader_of(kSamples, {.batch_size = kSamples, .shuffle = true});
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (const Batch& batch : loader) {
      for (size_t i = 0; i < kSamples; ++i) ++counts[i][indices(batch)[i]];
    }
  }
  for (const auto& row : counts) {
    for (const int count : row) EXPECT_NEAR(count, kEpochs / kSamples, 120);  // over 4 sigma
  }
}

TEST(DataLoader, GivesTheSameBytesForAnyNumberOfWorkers) {
  std::vector<Bytes> expected;
  for (const int workers : {0, 1, 2, 7}) {
    for (const int prefetch : {1, 3}) {
      DataLoader loader = loader_of(53, {.batch_size = 5,
                                         .shuffle = true,
                                         .num_workers = workers,
                                         .prefetch_factor = prefetch,
                                         .seed = 11});
      const std::vector<Bytes> got = take(loader, 30);  // two epochs and a half
      if (expected.empty()) expected = got;
      EXPECT_EQ(got, expected) << workers << " workers";
    }
  }
  EXPECT_NE(expected[0], expected[12]);  // epochs differ
}

TEST(DataLoader, NoTwoSamplesOrEpochsShareRandomNumbers) {
  DataLoader loader = loader_of(40, {.batch_size = 40, .num_workers = 2});
  std::set<std::vector<float>> seen;
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (const Batch& batch : loader) {
      const auto* values = batch[0].data<float>();
      for (int64_t i = 0; i < 40; ++i) seen.insert({values + i * 12, values + i * 12 + 12});
    }
  }
  EXPECT_EQ(seen.size(), 200u);
}

TEST(DataLoader, GoesOnFromAnyPosition) {
  const DataLoaderOptions serial{.batch_size = 4, .shuffle = true, .seed = 3};
  DataLoader whole = loader_of(30, serial);
  const std::vector<Bytes> expected = take(whole, 27);  // three epochs of 8, with their ends
  for (const int workers : {0, 3}) {
    DataLoaderOptions options = serial;
    options.num_workers = workers;
    for (int start = 0; start < 20; ++start) {
      DataLoader first = loader_of(30, options);
      take(first, start);
      DataLoader second = loader_of(30, options);
      second.seek(first.epoch(), first.batch());
      const std::vector<Bytes> rest(expected.begin() + start, expected.begin() + start + 7);
      EXPECT_EQ(take(second, 7), rest) << start;
      second.seek(first.epoch(), first.batch());  // and back again
      EXPECT_EQ(take(second, 7), rest) << start;
    }
  }
}

TEST(DataLoader, ErrorsComeInTurnAndLoadingGoesOn) {
  for (const int workers : {0, 1, 4}) {
    DataLoader loader(std::make_shared<FaultyDataset>(20, 9),
                      {.batch_size = 2, .num_workers = workers});
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int64_t batch = 0; batch < 10; ++batch) {
        if (batch == 4) {
          expect_error([&] { loader.next(); }, {"/data/9.jpg: damaged JPEG"});
        } else {
          EXPECT_EQ(indices(*loader.next()), (std::vector<int64_t>{2 * batch, 2 * batch + 1}));
        }
      }
      EXPECT_FALSE(loader.next());
    }
  }
}

// Counts reads, takes its time, and notes the compute threads that workers may use.
class WatchedDataset final : public RandomDataset {
 public:
  WatchedDataset(int64_t size, std::chrono::microseconds pause)
      : RandomDataset(size), pause_(pause) {}
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    std::this_thread::sleep_for(pause_);
    most_threads = std::max(most_threads.load(), num_threads());
    ++reads;
    RandomDataset::read(index, random, out);
  }
  mutable std::atomic<int> reads{0}, most_threads{0};

 private:
  std::chrono::microseconds pause_;
};

TEST(DataLoader, WorkersReadAheadAsFarAsToldAndNoFurther) {
  const auto dataset = std::make_shared<WatchedDataset>(1000, std::chrono::microseconds(0));
  DataLoader loader(dataset, {.batch_size = 5, .num_workers = 2, .prefetch_factor = 3});
  loader.next();
  constexpr int kExpected = (1 + 2 * 3) * 5;
  for (int i = 0; i < 2000 && dataset->reads < kExpected; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset->reads, kExpected);
  EXPECT_EQ(dataset->most_threads, 1);
}

TEST(DataLoader, CanBeDestroyedAtAnyMoment) {
  const auto dataset = std::make_shared<WatchedDataset>(64, std::chrono::microseconds(20));
  for (int round = 0; round < 300; ++round) {
    DataLoader loader(dataset, {.batch_size = 4,
                                .shuffle = true,
                                .num_workers = 1 + round % 5,
                                .prefetch_factor = 1 + round % 3});
    for (int i = 0; i < round % 7; ++i) loader.next();
    if (round % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(37 * (round % 11)));
  }
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  EXPECT_LT(threads, 20);  // those of the loaders are gone
}

// Slow from sample 100 on.
class SlowingDataset final : public RandomDataset {
 public:
  SlowingDataset() : RandomDataset(1000) {}
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    if (index >= 100) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ++reads;
    RandomDataset::read(index, random, out);
  }
  mutable std::atomic<int> reads{0};
};

TEST(DataLoader, DestroyingItLeavesBatchesUnfinished) {
  const auto dataset = std::make_shared<SlowingDataset>();
  DataLoader(dataset, {.batch_size = 100, .num_workers = 2}).next();
  EXPECT_LT(dataset->reads, 300);
}

TEST(DataLoader, MeasuresTheTimeItWaits) {
  const auto slow = std::make_shared<WatchedDataset>(8, std::chrono::milliseconds(5));
  DataLoader waits(slow, {.batch_size = 4});
  EXPECT_EQ(waits.wait_seconds(), 0.0);
  waits.next();
  EXPECT_GE(waits.wait_seconds(), 0.02);
}

TEST(DataLoader, WrongOptionsAreErrors) {
  const auto make = [](const DataLoaderOptions& options) { loader_of(4, options); };
  expect_error([&] { make({.batch_size = 0}); }, {"batch_size", "got 0"});
  expect_error([&] { make({.batch_size = -3}); }, {"batch_size", "got -3"});
  expect_error([&] { make({.num_workers = -1}); }, {"num_workers", "got -1"});
  expect_error([&] { make({.prefetch_factor = 0}); }, {"prefetch_factor", "got 0"});
  expect_error([] { DataLoader(nullptr, {}); }, {"no data set"});
  DataLoader loader = loader_of(4, {.batch_size = 2});
  expect_error([&] { loader.seek(0, 3); }, {"seek", "got 3", "0 to 2"});
  expect_error([&] { loader.seek(-1, 0); }, {"seek", "got -1"});
}

}  // namespace
}  // namespace wick::data
