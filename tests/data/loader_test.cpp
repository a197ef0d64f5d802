#include "wick/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "wick/core/base/parallel.h"
#include "wick/tests/data/loader_testing.h"

namespace wick::data {
namespace {

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
  for (const int workers : {0, 1, 2, 7, kAuto}) {
    for (const int prefetch : {1, 3}) {
      DataLoaderOptions options{
          .batch_size = 5, .shuffle = true, .num_workers = workers, .seed = 11};
      if (workers != 0) options.prefetch_factor = prefetch;
      DataLoader loader = loader_of(53, options);
      const std::vector<Bytes> got = take(loader, 30);  // two epochs and a half
      if (expected.empty()) expected = got;
      EXPECT_EQ(got, expected) << workers << " workers";
    }
  }
  EXPECT_NE(expected[0], expected[12]);  // epochs differ
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
          expect_error([&] { loader.next(); },
                       {workers == 0 ? "data loader: batch 4" : "data loader: worker ",
                        concat("batch 4 of epoch ", epoch, ", sample 9 (nine): "),
                        "/data/9.jpg: damaged JPEG"});
        } else {
          EXPECT_EQ(indices(*loader.next()), (std::vector<int64_t>{2 * batch, 2 * batch + 1}));
        }
      }
      EXPECT_FALSE(loader.next());
    }
  }
}

TEST(DataLoader, ErrorsDoWithoutANameThatCannotBeHad) {
  class Nameless final : public RandomDataset {
   public:
    using RandomDataset::RandomDataset;
    void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
      WICK_CHECK(index != 3, "damaged JPEG");
      RandomDataset::read(index, random, out);
    }
    std::string name(int64_t) const override { throw std::out_of_range("no such name"); }
  };
  for (const int workers : {0, 2}) {
    const auto dataset = std::make_shared<Nameless>(6);
    DataLoader loader(dataset, {.batch_size = 2, .num_workers = workers});
    loader.next();
    expect_error([&] { loader.next(); }, {"batch 1 of epoch 0, sample 3: damaged JPEG"});
    EXPECT_EQ(indices(*loader.next()), (std::vector<int64_t>{4, 5}));
    DataLoader skipping(dataset,
                        {.batch_size = 2, .num_workers = workers, .on_error = OnError::kSkip});
    while (skipping.next()) continue;
    EXPECT_EQ(skipping.last_skipped(), "sample 3: damaged JPEG");
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

TEST(DataLoader, WrongPositionsAreErrors) {
  DataLoader loader = loader_of(4, {.batch_size = 2});
  expect_error([&] { loader.seek(0, 3); }, {"seek", "got 3", "0 to 2"});
  expect_error([&] { loader.seek(-1, 0); }, {"seek", "got -1"});
  expect_error([&] { loader.seek(INT64_MAX, 0); }, {"seek", "wrong epoch"});
}

}  // namespace
}  // namespace wick::data
