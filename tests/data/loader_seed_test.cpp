// What orders and random transforms follow from.
#include <gtest/gtest.h>

#include <algorithm>

#include <map>
#include <mutex>

#include "wick/core/random.h"
#include "wick/data/prefetcher.h"
#include "wick/data/worker_info.h"
#include "wick/tests/data/loader_testing.h"
#include "wick/tests/harness/devices.h"

namespace wick::data {
namespace {

constexpr int kSeedSamples = 20;
constexpr int kSeedEpoch = 4 + 1;  // calls of `next`, the one that ends it included

DataLoaderOptions unseeded(int workers) {
  return {.batch_size = 5, .shuffle = true, .num_workers = workers};
}

std::vector<Bytes> epoch_of(DataLoader& loader) { return take(loader, kSeedEpoch); }

TEST(LoaderSeed, ManualSeedDecidesOnOrderAndTransforms) {
  for (const int workers : {0, 1, 3}) {
    manual_seed(1);
    DataLoader loader = loader_of(kSeedSamples, unseeded(workers));
    const std::vector<Bytes> first = epoch_of(loader), second = epoch_of(loader);
    EXPECT_NE(first, second);
    const auto begin = [&](uint64_t seed, int own_workers) {
      manual_seed(seed);
      DataLoader anew = loader_of(kSeedSamples, unseeded(own_workers));
      std::vector<Bytes> both = take(anew, 2 * kSeedEpoch);
      return both;
    };
    std::vector<Bytes> both = first;
    both.insert(both.end(), second.begin(), second.end());
    EXPECT_EQ(begin(1, workers), both);
    EXPECT_EQ(begin(1, 2), both) << "with any number of workers";
    EXPECT_NE(begin(2, workers), both);
    DataLoader drawn_later = loader_of(kSeedSamples, unseeded(workers));
    EXPECT_NE(epoch_of(drawn_later), first);
  }
}

TEST(LoaderSeed, AnEpochTakesOneDrawAsItBegins) {
  for (const int workers : {0, 2}) {
    for (const bool persistent : {true, false}) {
      if (workers == 0 && persistent) continue;
      DataLoaderOptions options = unseeded(workers);
      if (workers > 0) options.persistent_workers = persistent;
      manual_seed(3);
      const auto draws = [] { return default_generator(kCpu).get_state().offset; };
      DataLoader loader = loader_of(kSeedSamples, options);
      EXPECT_EQ(draws(), 0u);
      for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        EXPECT_FALSE(loader.seed().has_value());
        for (int i = 0; i < kSeedEpoch; ++i) {
          loader.next();
          EXPECT_EQ(draws(), epoch + 1);
          EXPECT_EQ(loader.seed().has_value(), i + 1 < kSeedEpoch);
        }
      }
    }
  }
}

TEST(LoaderSeed, AGeneratorOfItsOwnIsDrawnFrom) {
  Generator generator(5);
  DataLoaderOptions options = unseeded(0);
  options.generator = &generator;
  const uint64_t draws = default_generator(kCpu).get_state().offset;
  DataLoader loader = loader_of(kSeedSamples, options);
  const std::vector<Bytes> first = epoch_of(loader);
  EXPECT_NE(epoch_of(loader), first);
  EXPECT_EQ(generator.get_state().offset, 2u);
  EXPECT_EQ(default_generator(kCpu).get_state().offset, draws);
  generator.manual_seed(5);
  DataLoader again = loader_of(kSeedSamples, options);
  EXPECT_EQ(epoch_of(again), first);
}

TEST(LoaderSeed, AGivenSeedDrawsNothing) {
  DataLoaderOptions options = unseeded(2);
  options.seed = 9;
  manual_seed(1);
  DataLoader loader = loader_of(kSeedSamples, options);
  EXPECT_EQ(loader.seed(), 9u);
  const std::vector<Bytes> first = epoch_of(loader);
  EXPECT_NE(epoch_of(loader), first);
  EXPECT_EQ(default_generator(kCpu).get_state().offset, 0u);
  manual_seed(2);
  DataLoader again = loader_of(kSeedSamples, options);
  EXPECT_EQ(epoch_of(again), first);
}

// What runs of earlier versions, resumed, are to go on with.
TEST(LoaderSeed, AGivenSeedMeansTheSameInAllVersions) {
  DataLoader loader = loader_of(8, {.batch_size = 8, .shuffle = true, .seed = 3});
  const Batch first = *loader.next();
  EXPECT_EQ(indices(first), (std::vector<int64_t>{7, 3, 0, 1, 2, 5, 6, 4}));
  EXPECT_NEAR(first[0].data<float>()[0], 0.529464, 1e-6);
  loader.next();
  EXPECT_EQ(indices(*loader.next()), (std::vector<int64_t>{0, 2, 1, 6, 5, 7, 4, 3}));
}

// With the position, its seed and the state of the generator, what follows has the same bytes.
TEST(LoaderSeed, GoesOnFromWithinAnEpochThatDrewItsSeed) {
  for (const int workers : {0, 2}) {
    for (const int done : {0, 2, 4, 5, 7}) {
      manual_seed(6);
      DataLoader whole = loader_of(kSeedSamples, unseeded(workers));
      take(whole, done);
      const int64_t epoch = whole.epoch(), batch = whole.batch();
      const std::optional<uint64_t> seed = whole.seed();
      const std::vector<RandomKey> random = random_states();
      const std::vector<Bytes> want = take(whole, 3 * kSeedEpoch);
      manual_seed(77);
      DataLoader resumed = loader_of(kSeedSamples, unseeded(workers));
      set_random_states(random);
      resumed.seek(epoch, batch, seed);
      EXPECT_EQ(take(resumed, 3 * kSeedEpoch), want) << done;
    }
  }
  DataLoader fixed = loader_of(kSeedSamples, {.batch_size = 5, .seed = 4});
  expect_error([&] { fixed.seek(0, 1, 5); },
               {"wrong seed", "got 5", "expected that of all epochs, 4"});
  EXPECT_EQ(fixed.batch(), 0);
}

TEST(LoaderSeed, SeekingInAnEpochKeepsItsSeed) {
  manual_seed(8);
  DataLoader loader = loader_of(kSeedSamples, unseeded(1));
  const std::vector<Bytes> first = epoch_of(loader);
  manual_seed(8);
  loader.seek(0, 0);
  const std::vector<Bytes> begun = take(loader, 3);
  EXPECT_TRUE(std::equal(begun.begin(), begun.end(), first.begin()));
  loader.seek(0, 1);
  EXPECT_EQ(take(loader, 1)[0], first[1]);
  EXPECT_EQ(default_generator(kCpu).get_state().offset, 1u);
}

TEST(LoaderSeed, APrefetcherDrawsWhenAnEpochsFirstBatchIsAskedFor) {
  for (const Device device : testing::devices()) {
    const auto dataset = std::make_shared<RandomDataset>(kSeedSamples);
    manual_seed(4);
    Prefetcher ahead = load_ahead(dataset, unseeded(2), device);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      for (int i = 0; i < kSeedEpoch; ++i) {
        EXPECT_EQ(default_generator(kCpu).get_state().offset, epoch + (i > 0));
        EXPECT_EQ(ahead.seed().has_value(), i > 0);
        ahead.next();
      }
    }
  }
}

TEST(LoaderSeed, SharesOfAnOrderHaveOneSeed) {
  manual_seed(1);
  std::vector<int64_t> seen;
  for (const int rank : {0, 1}) {
    manual_seed(static_cast<uint64_t>(rank));  // as for dropout that differs
    DataLoader loader = loader_of(
        kSeedSamples,
        {.batch_size = 5, .sampler = std::make_shared<DistributedSampler>(kSeedSamples, 2, rank)});
    EXPECT_EQ(loader.seed(), 0u);
    for (const Batch& batch : loader) {
      for (const int64_t i : indices(batch)) seen.push_back(i);
    }
  }
  std::sort(seen.begin(), seen.end());
  for (int64_t i = 0; i < kSeedSamples; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

// Notes the seeds that workers have, by sample.
class SeedDataset final : public RandomDataset {
 public:
  SeedDataset() : RandomDataset(kSeedSamples) {}
  void read(int64_t index, PhiloxStream random, std::span<void* const> out) const override {
    RandomDataset::read(index, random, out);
    const WorkerInfo* info = get_worker_info();
    const std::lock_guard lock(mutex_);
    seeds[info->seed - static_cast<uint64_t>(info->id)]++;
  }
  mutable std::map<uint64_t, int> seeds;

 private:
  mutable std::mutex mutex_;
};

TEST(LoaderSeed, WorkersHaveAnotherSeedInEachEpoch) {
  for (const std::optional<uint64_t> seed :
       {std::optional<uint64_t>(4), std::optional<uint64_t>()}) {
    const auto dataset = std::make_shared<SeedDataset>();
    {
      DataLoaderOptions options = unseeded(2);
      options.seed = seed;
      options.prefetch_factor = 1;
      DataLoader loader(dataset, options);
      for (int epoch = 0; epoch < 3; ++epoch) epoch_of(loader);
    }
    int whole_epochs = 0;
    for (const auto& [base, count] : dataset->seeds) whole_epochs += count == kSeedSamples;
    EXPECT_EQ(whole_epochs, 3);
  }
}

}  // namespace
}  // namespace wick::data
