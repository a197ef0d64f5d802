#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/data/detail/loader_tuner.h"
#include "wick/data/worker_info.h"
#include "wick/tests/data/loader_testing.h"

namespace wick::data {
namespace {

TEST(DataLoaderOptions, ContradictionsAreErrors) {
  const auto sampler = std::make_shared<SequentialSampler>(4);
  const auto batches = std::make_shared<BatchSampler>(sampler, 2, false);
  Generator generator(1);
  const auto refuses = [](const DataLoaderOptions& options, const std::vector<std::string>& parts) {
    expect_error([&] { loader_of(4, options); }, parts);
  };
  refuses({.batch_size = 0}, {"batch_size", "got 0"});
  refuses({.batch_size = -3}, {"batch_size", "got -3"});
  refuses({.batch_size = std::numeric_limits<int64_t>::max()},
          {"batch_size", "got 9223372036854775807, expected 1 to 1152921504606846976"});
  refuses({.num_workers = -2}, {"num_workers", "got -2"});
  refuses({.num_workers = 1, .prefetch_factor = 0}, {"prefetch_factor", "got 0"});
  refuses({.num_workers = 1, .timeout = -1}, {"timeout", "got -1"});
  refuses({.num_workers = 1, .timeout = std::numeric_limits<double>::infinity()}, {"timeout"});
  refuses({.prefetch_factor = 2}, {"prefetch_factor needs workers"});
  refuses({.persistent_workers = true}, {"persistent_workers needs workers"});
  refuses({.timeout = 3}, {"timeout needs workers"});
  refuses({.shuffle = true, .sampler = sampler}, {"sampler and shuffle"});
  refuses({.batch_size = {}, .drop_last = true}, {"drop_last without a batch_size"});
  refuses({.batch_size = 2, .batch_sampler = batches}, {"batch_sampler and batch_size"});
  refuses({.batch_size = {}, .batch_sampler = batches}, {"batch_sampler and batch_size"});
  refuses({.shuffle = true, .batch_sampler = batches}, {"batch_sampler and"});
  refuses({.sampler = sampler, .batch_sampler = batches}, {"batch_sampler and"});
  refuses({.batch_sampler = batches, .drop_last = true}, {"batch_sampler and"});
  refuses({.generator = &generator, .seed = 4}, {"generator and seed"});
  expect_error([] { DataLoader(std::shared_ptr<const Dataset>(), {}); }, {"no data set"});
  expect_error([] { DataLoader(std::shared_ptr<const IterableDataset>(), {}); }, {"no data set"});
}

TEST(DataLoaderOptions, ASamplerDecides) {
  DataLoader loader =
      loader_of(9, {.batch_size = 2,
                    .sampler = std::make_shared<SubsetRandomSampler>(std::vector<int64_t>{8, 3, 5}),
                    .num_workers = 2});
  EXPECT_EQ(loader.size(), 2);
  std::vector<int64_t> seen;
  for (const Batch& batch : loader) {
    for (const int64_t i : indices(batch)) seen.push_back(i);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<int64_t>{3, 5, 8}));
  DataLoader beyond =
      loader_of(4, {.sampler = std::make_shared<SequentialSampler>(5), .num_workers = 1});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(beyond.next());
  expect_error([&] { beyond.next(); },
               {"worker 0, batch 4 of epoch 0: sampler: no such sample: got 4", "0 to 3"});
}

// Batches of 1, 2, 3 samples.
class Growing final : public Batches {
 public:
  int64_t size() const override { return 3; }
  std::shared_ptr<const BatchOrder> order(uint64_t, int64_t epoch) const override {
    struct Order final : BatchOrder {
      explicit Order(int64_t e) : epoch(e) {}
      std::vector<int64_t> batch(int64_t index) const override {
        return std::vector<int64_t>(static_cast<size_t>(index + 1), epoch);
      }
      int64_t first_place(int64_t index) const override { return index * (index + 1) / 2; }
      int64_t epoch;
    };
    return std::make_shared<const Order>(epoch);
  }
  bool repeats() const override { return true; }
};

TEST(DataLoaderOptions, ABatchSamplerDecidesAndRepeatedSamplesDiffer) {
  for (const int workers : {0, 3}) {
    DataLoader loader =
        loader_of(9, {.batch_sampler = std::make_shared<Growing>(), .num_workers = workers});
    std::set<std::vector<float>> random;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      int64_t size = 0;
      for (const Batch& batch : loader) {
        EXPECT_EQ(indices(batch), std::vector<int64_t>(static_cast<size_t>(++size), epoch));
        const auto* values = batch[0].data<float>();
        for (int64_t i = 0; i < size; ++i) random.insert({values + 12 * i, values + 12 * i + 12});
      }
      EXPECT_EQ(size, 3);
    }
    EXPECT_EQ(random.size(), 12u);
  }
}

TEST(DataLoaderOptions, WithoutABatchSizeSamplesComeAlone) {
  for (const int workers : {0, 2}) {
    DataLoader loader = loader_of(3, {.batch_size = {}, .num_workers = workers, .seed = 0});
    DataLoader batched = loader_of(3, {.seed = 0});
    for (int64_t i = 0; i < 3; ++i) {
      const Batch sample = *loader.next();
      EXPECT_EQ(sample[0].shape(), (Shape{2, 3, 2}));
      EXPECT_EQ(sample[0].strides(), (Strides{1, 4, 2}));
      EXPECT_EQ(sample[1].rank(), 0);
      EXPECT_EQ(bytes(sample), bytes(*batched.next()));
    }
    EXPECT_FALSE(loader.next());
  }
}

// Sample i is i + 1 numbers.
class Ragged final : public RandomDataset {
 public:
  Ragged() : RandomDataset(6) {}
  std::vector<Tensor> get(int64_t index, PhiloxStream) const override {
    return {full({index + 1}, index)};
  }
};

TEST(DataLoaderOptions, CollatesAsTold) {
  const auto pad = [](std::vector<Sample> samples) {
    const auto n = static_cast<int64_t>(samples.size());
    const int64_t longest = samples.back()[0].size(0);  // here they grow
    const Tensor padded = zeros({n, longest});
    for (int64_t i = 0; i < n; ++i) {
      const Tensor& sample = samples[static_cast<size_t>(i)][0];
      padded.select(0, i).narrow(0, 0, sample.size(0)).copy_(sample);
    }
    return Batch{{padded}};
  };
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<Ragged>(),
                      {.batch_size = 3, .num_workers = workers, .collate_fn = pad});
    loader.next();
    const Batch batch = *loader.next();
    EXPECT_EQ(batch[0].shape(), (Shape{3, 6}));
    EXPECT_EQ(batch[0].to_vector<float>(),
              (std::vector<float>{3, 3, 3, 3, 0, 0, 4, 4, 4, 4, 4, 0, 5, 5, 5, 5, 5, 5}));
  }
  // What samples are when they are not read in place.
  const auto stack_them = [](std::vector<Sample> samples) {
    return Batch{{samples[0][0].unsqueeze(0).clone(), samples[0][1].unsqueeze(0).clone()}};
  };
  DataLoader alone = loader_of(4, {.collate_fn = stack_them, .seed = 0});
  DataLoader usual = loader_of(4, {.seed = 0});
  EXPECT_EQ(take(alone, 4), take(usual, 4));
}

TEST(DataLoaderOptions, PinsMemoryWhereThereIsAGpu) {
  for (const bool pin : {false, true}) {
    DataLoader loader =
        loader_of(8, {.batch_size = 4, .num_workers = 1, .pin_memory = pin, .seed = 0});
    DataLoader usual = loader_of(8, {.batch_size = 4, .seed = 0});
    const Batch batch = *loader.next();
    EXPECT_EQ(batch[0].is_pinned(), pin && cuda_is_available());
    EXPECT_EQ(batch[0].strides(), (Strides{12, 1, 4, 2}));
    EXPECT_EQ(bytes(batch), bytes(*usual.next()));
  }
}

TEST(DataLoaderOptions, WorkersAreInitialisedOncePerLife) {
  EXPECT_EQ(get_worker_info(), nullptr);
  for (const bool persistent : {true, false}) {
    std::mutex mutex;
    std::multiset<int> started;
    const auto init = [&](int id) {
      const WorkerInfo* info = get_worker_info();
      ASSERT_NE(info, nullptr);
      EXPECT_EQ(info->id, id);
      EXPECT_EQ(info->num_workers, 2);
      const std::lock_guard lock(mutex);
      started.insert(id);
    };
    {
      DataLoader loader = loader_of(8, {.batch_size = 2,
                                        .num_workers = 2,
                                        .worker_init_fn = init,
                                        .persistent_workers = persistent,
                                        .seed = 40});
      for (int epoch = 0; epoch < 3; ++epoch) {
        for (const Batch& batch : loader) EXPECT_EQ(batch.size(), 2);
      }
    }
    // All have started once they were joined; those of a fourth epoch were not needed.
    EXPECT_EQ(started,
              persistent ? (std::multiset<int>{0, 1}) : (std::multiset<int>{0, 0, 0, 1, 1, 1}));
  }
}

TEST(DataLoaderOptions, AFailedInitialisationIsAnErrorInTurn) {
  DataLoader loader = loader_of(
      4, {.num_workers = 1, .worker_init_fn = [](int) { throw std::runtime_error("no licence"); }});
  expect_error([&] { loader.next(); }, {"worker_init_fn of worker 0", "no licence"});
  EXPECT_EQ(indices(*loader.next()), std::vector<int64_t>{1});
}

// Sample 0 takes until it is released.
class SlowFirst final : public RandomDataset {
 public:
  SlowFirst() : RandomDataset(12) {}
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    while (index == 0 && !released) std::this_thread::yield();
    RandomDataset::read(index, random, out);
  }
  mutable std::atomic<bool> released{false};
};

TEST(DataLoaderOptions, OutOfOrderBatchesComeWhenTheyAreDone) {
  const auto dataset = std::make_shared<SlowFirst>();
  DataLoader loader(dataset, {.batch_size = 2, .num_workers = 2, .in_order = false});
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> seen;
    for (const Batch& batch : loader) {
      for (const int64_t i : indices(batch)) seen.push_back(i);
      if (epoch == 0 && seen.size() == 2) {
        EXPECT_EQ(seen[0], 2);
        dataset->released = true;
      }
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen.size(), 12u);
    for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
  }
}

// The number of workers that is most often in use in the end, for a loader whose batches take
// `read` seconds each in up to `cores` threads at a time, and a caller who is busy for `step`
// seconds.
int settle(loading::WorkerTuner& tuner, double read, double step, int cores) {
  std::map<int, int> counts;
  for (int i = 0; i < 5000; ++i) {
    const double supply = read / std::min(tuner.workers(), cores);
    const double seen = read * std::max(1.0, double{1} * tuner.workers() / cores);
    tuner.note(seen, std::max(0.0, supply - step), step);
    if (i >= 1000) ++counts[tuner.workers()];
  }
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

TEST(WorkerTuner, TakesAsManyWorkersAsHideReading) {
  loading::WorkerTuner enough(16), four(16), capped(3);
  EXPECT_EQ(settle(enough, 0.004, 0.01, 16), 1);
  EXPECT_EQ(settle(four, 0.04, 0.0101, 16), 4);
  EXPECT_EQ(settle(capped, 0.04, 0.01, 16), 3);
}

TEST(WorkerTuner, StopsWhereMoreDoNotHelp) {
  loading::WorkerTuner two_cores(16), alone(16);
  EXPECT_EQ(settle(two_cores, 0.04, 0.01, 2), 2);
  EXPECT_EQ(settle(alone, 0.01, 0, 1), 1);
}

TEST(WorkerTuner, AsksForNoMoreWhereThereAreNone) {
  loading::WorkerTuner tuner(16);
  while (tuner.workers() < 2) tuner.note(0.04, 0.03, 0.01);
  tuner.keep_to(1);
  EXPECT_EQ(tuner.workers(), 1);
  EXPECT_EQ(settle(tuner, 0.04, 0.01, 16), 1);
}

TEST(WorkerTuner, FollowsWhatChanges) {
  loading::WorkerTuner tuner(16);
  EXPECT_EQ(settle(tuner, 0.004, 0.01, 16), 1);
  EXPECT_EQ(settle(tuner, 0.02, 0.0101, 16), 2);
}

}  // namespace
}  // namespace wick::data
