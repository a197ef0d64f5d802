#include "wick/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "wick/tests/data/loader_testing.h"

namespace wick::data {
namespace {

using Indices = std::vector<int64_t>;

Indices order_of(const Sampler& sampler, uint64_t seed = 1, int64_t epoch = 0) {
  Indices order(static_cast<size_t>(sampler.size()));
  sampler.order(seed, epoch)->at(0, order);
  return order;
}

Indices sorted(Indices values) {
  std::sort(values.begin(), values.end());
  return values;
}

Indices numbers(int64_t n) {
  Indices all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

// Each place can be had alone, and orders follow from seed and epoch alone.
void expect_pure(const Sampler& sampler) {
  const Indices whole = order_of(sampler, 5, 3);
  for (size_t i = 0; i < whole.size(); ++i) {
    int64_t one = -1;
    sampler.order(5, 3)->at(static_cast<int64_t>(i), {&one, 1});
    ASSERT_EQ(one, whole[i]) << i;
  }
}

void expect_random(const Sampler& sampler) {
  expect_pure(sampler);
  std::set<Indices> orders;
  for (const uint64_t seed : {1u, 2u}) {
    for (const int64_t epoch : {0, 1, 2}) orders.insert(order_of(sampler, seed, epoch));
  }
  EXPECT_EQ(orders.size(), 6u);
}

TEST(Sampler, Sequential) {
  EXPECT_EQ(order_of(SequentialSampler(5)), numbers(5));
  EXPECT_EQ(SequentialSampler(0).size(), 0);
  expect_pure(SequentialSampler(5));
}

TEST(Sampler, RandomGivesEachOnce) {
  const RandomSampler sampler(50);
  EXPECT_EQ(sorted(order_of(sampler)), numbers(50));
  EXPECT_FALSE(sampler.repeats());
  expect_random(sampler);
}

TEST(Sampler, RandomStopsEarlyOrGoesRoundAgain) {
  const Indices few = order_of(RandomSampler(50, false, 20));
  EXPECT_EQ(few.size(), 20u);
  EXPECT_EQ(std::set<int64_t>(few.begin(), few.end()).size(), 20u);
  const RandomSampler sampler(10, false, 25);
  EXPECT_TRUE(sampler.repeats());
  const Indices many = order_of(sampler);
  EXPECT_EQ(sorted({many.begin(), many.begin() + 10}), numbers(10));
  EXPECT_EQ(sorted({many.begin() + 10, many.begin() + 20}), numbers(10));
  EXPECT_NE(Indices(many.begin(), many.begin() + 10), Indices(many.begin() + 10, many.end() - 5));
  EXPECT_EQ(many.size(), 25u);
}

// The counts of n kinds of draws are as those of equal chances: chi-squared within 5 sigma.
void expect_even(const std::vector<double>& counts, const std::vector<double>& expected) {
  double chi_squared = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    chi_squared += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  }
  const double freedom = static_cast<double>(counts.size() - 1);
  EXPECT_LT(chi_squared, freedom + 5 * std::sqrt(2 * freedom));
}

TEST(Sampler, RandomWithReplacementDrawsEvenly) {
  const RandomSampler sampler(20, true, 40000);
  EXPECT_TRUE(sampler.repeats());
  std::vector<double> counts(20);
  for (const int64_t i : order_of(sampler)) ++counts.at(static_cast<size_t>(i));
  expect_even(counts, std::vector<double>(20, 2000.0));
  expect_random(RandomSampler(20, true));
}

TEST(Sampler, OrdersOfManySamplesAreCalculated) {
  constexpr int64_t kMany = (int64_t{1} << 20) + 7;
  const Indices order = order_of(RandomSampler(kMany));
  std::vector<bool> seen(static_cast<size_t>(kMany));
  for (const int64_t i : order) seen.at(static_cast<size_t>(i)) = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), kMany);
  // Which tenth of the samples comes at which tenth of the places, and what follows what.
  std::vector<double> places(100), steps(10);
  const auto tenth = [](int64_t i) { return static_cast<size_t>(i * 10 / kMany); };
  for (int64_t i = 0; i + 1 < kMany; ++i) {
    const int64_t sample = order[static_cast<size_t>(i)], next = order[static_cast<size_t>(i + 1)];
    ++places[tenth(i) * 10 + tenth(sample)];
    ++steps[tenth((next - sample + kMany) % kMany)];
  }
  expect_even(places, std::vector<double>(100, kMany / 100.0));
  expect_even(steps, std::vector<double>(10, kMany / 10.0));
  // A place of a thousand million is found without listing them.
  const RandomSampler huge(int64_t{1} << 40);
  std::set<int64_t> few;
  for (int64_t i = 0; i < 100; ++i) {
    int64_t sample = -1;
    huge.order(1, 0)->at(1'000'000'000 + i, {&sample, 1});
    EXPECT_TRUE(sample >= 0 && sample < huge.size());
    few.insert(sample);
  }
  EXPECT_EQ(few.size(), 100u);
}

TEST(Sampler, WeightedDrawsInProportion) {
  const WeightedRandomSampler sampler({1, 0, 3, 6, 0}, 50000);
  EXPECT_TRUE(sampler.repeats());
  std::vector<double> counts(5);
  for (const int64_t i : order_of(sampler)) ++counts.at(static_cast<size_t>(i));
  EXPECT_EQ(counts[1] + counts[4], 0);
  expect_even({counts[0], counts[2], counts[3]}, {5000, 15000, 30000});
  expect_random(WeightedRandomSampler({1, 2, 3}, 40));
}

TEST(Sampler, WeightedWithoutReplacement) {
  const WeightedRandomSampler both({0.5, 0, 4.0, 1.0}, 3, false);
  EXPECT_FALSE(both.repeats());
  EXPECT_EQ(sorted(order_of(both)), (Indices{0, 2, 3}));
  expect_pure(both);
  // The first draw is in proportion too.
  std::vector<double> first(2);
  const WeightedRandomSampler sampler({1, 3}, 2, false);
  for (int64_t epoch = 0; epoch < 4000; ++epoch) {
    ++first.at(static_cast<size_t>(order_of(sampler, 1, epoch)[0]));
  }
  expect_even(first, {1000, 3000});
}

TEST(Sampler, SubsetRandom) {
  const SubsetRandomSampler sampler({7, 3, 9, 11, 20, 21, 22});
  EXPECT_EQ(sorted(order_of(sampler)), (Indices{3, 7, 9, 11, 20, 21, 22}));
  expect_random(sampler);
}

TEST(Sampler, DistributedSharesOneOrder) {
  for (const bool shuffle : {false, true}) {
    for (const int64_t n : {1, 2, 8, 10, 11}) {
      Indices together, whole = numbers(n);
      if (shuffle) whole = order_of(DistributedSampler(n, 1, 0), 1, 4);
      for (int64_t rank = 0; rank < 4; ++rank) {
        const DistributedSampler sampler(n, 4, rank, {.shuffle = shuffle});
        const Indices own = order_of(sampler, 1, 4);
        ASSERT_EQ(own.size(), static_cast<size_t>((n + 3) / 4));
        for (size_t i = 0; i < own.size(); ++i) {
          EXPECT_EQ(own[i], whole[(i * 4 + static_cast<size_t>(rank)) % whole.size()]);
        }
        together.insert(together.end(), own.begin(), own.end());
        const DistributedSampler dropping(n, 4, rank, {.shuffle = shuffle, .drop_last = true});
        const Indices fewer = order_of(dropping, 1, 4);
        EXPECT_EQ(fewer, Indices(own.begin(), own.begin() + n / 4));
      }
      EXPECT_EQ(std::set<int64_t>(together.begin(), together.end()).size(), static_cast<size_t>(n));
    }
  }
  expect_random(DistributedSampler(100, 4, 2));
}

TEST(Sampler, Batches) {
  const auto order = std::make_shared<SequentialSampler>(7);
  const BatchSampler all(order, 3, false), full(order, 3, true);
  EXPECT_EQ(all.size(), 3);
  EXPECT_EQ(full.size(), 2);
  EXPECT_EQ(all.order(0, 0)->batch(1), (Indices{3, 4, 5}));
  EXPECT_EQ(all.order(0, 0)->batch(2), (Indices{6}));
  EXPECT_EQ(all.order(0, 0)->first_place(2), 6);
}

TEST(Sampler, SequentialFromAnyPlace) {
  EXPECT_EQ(order_of(SequentialSampler(3, 4)), (Indices{4, 5, 6}));
}

// Together, the shares of a batch are that batch, followed by as much of the order's start as makes
// them equally long.
void expect_shares(int64_t n, int64_t batch_size, int64_t ranks, bool drop_last) {
  const auto sampler = std::make_shared<RandomSampler>(n);
  const Indices start = order_of(*sampler, 3, 2);
  const BatchSampler whole(sampler, batch_size, drop_last);
  for (int64_t i = 0; i < whole.size(); ++i) {
    Indices expected = whole.order(3, 2)->batch(i);
    const size_t size = expected.size();
    for (size_t k = 0; expected.size() % static_cast<size_t>(ranks) != 0; ++k) {
      expected.push_back(start[k % start.size()]);
    }
    Indices together;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const DistributedBatchSampler share(sampler, batch_size, ranks, rank, drop_last);
      ASSERT_EQ(share.size(), whole.size());
      EXPECT_EQ(share.order(3, 2)->first_place(i),
                i * batch_size + static_cast<int64_t>(together.size()));
      const Indices own = share.order(3, 2)->batch(i);
      EXPECT_EQ(own.size(), expected.size() / static_cast<size_t>(ranks));
      together.insert(together.end(), own.begin(), own.end());
    }
    EXPECT_EQ(together, expected) << "batch " << i << " of " << size << ", " << ranks << " ranks";
  }
}

TEST(Sampler, DistributedBatchesAreSharesOfTheSameBatches) {
  for (const int64_t n : {0, 1, 2, 7, 24, 29, 31}) {
    for (const int64_t ranks : {1, 2, 3, 4, 6, 12}) {
      for (const bool drop_last : {false, true}) expect_shares(n, 12, ranks, drop_last);
    }
  }
  // Places of samples that repeat name their random streams: no two are the same.
  const auto repeating = std::make_shared<RandomSampler>(5, true, 10);
  const DistributedBatchSampler share(repeating, 4, 2, 1, false);
  EXPECT_TRUE(share.repeats());
  EXPECT_EQ(share.order(0, 0)->first_place(1), 6);
}

// The bytes of a loader's next batches on some number of ranks, each step's as one.
std::vector<Bytes> steps_on(int64_t ranks, int64_t epoch, int64_t batch, int steps) {
  std::vector<Bytes> images(static_cast<size_t>(steps)), labels(images.size());
  for (int64_t rank = 0; rank < ranks; ++rank) {
    DataLoaderOptions options;
    options.batch_sampler = std::make_shared<DistributedBatchSampler>(
        std::make_shared<RandomSampler>(50), 12, ranks, rank, true);
    options.seed = 9;
    options.num_workers = 2;
    DataLoader loader = loader_of(50, options);
    loader.seek(epoch, batch);
    for (size_t step = 0; step < images.size(); ++step) {
      const std::optional<Batch> own = loader.next();
      if (!own) continue;
      const Batch image{{(*own)[0]}}, label{{(*own)[1]}};
      const Bytes first = bytes(image), second = bytes(label);
      images[step].insert(images[step].end(), first.begin(), first.end());
      labels[step].insert(labels[step].end(), second.begin(), second.end());
    }
  }
  for (size_t i = 0; i < images.size(); ++i) {
    images[i].insert(images[i].end(), labels[i].begin(), labels[i].end());
  }
  return images;
}

TEST(Sampler, RanksSeeTogetherWhatOneSees) {
  const std::vector<Bytes> alone = steps_on(1, 0, 0, 9);  // two epochs, and the end of one
  EXPECT_TRUE(alone[4].empty());
  EXPECT_NE(alone[0], alone[5]);
  for (const int64_t ranks : {2, 4}) {
    EXPECT_EQ(steps_on(ranks, 0, 0, 9), alone);
    EXPECT_EQ(steps_on(ranks, 1, 1, 3), std::vector<Bytes>(alone.begin() + 6, alone.end()));
  }
}

TEST(Sampler, WrongArgumentsAreErrors) {
  expect_error([] { SequentialSampler(-1); }, {"sequential sampler", "got -1"});
  expect_error([] { RandomSampler(5, true, 0); }, {"num_samples", "got 0"});
  expect_error([] { RandomSampler(0, true, 3); }, {"no samples"});
  expect_error([] { WeightedRandomSampler({1, -2}, 1); }, {"got -2", "sample 1"});
  expect_error([] { WeightedRandomSampler({1, NAN}, 1); }, {"weight"});
  expect_error([] { WeightedRandomSampler({0, 0}, 1); }, {"sum"});
  expect_error([] { WeightedRandomSampler({1, 0}, 2, false); }, {"got 1", "2"});
  expect_error([] { DistributedSampler(5, 2, 2); }, {"rank", "got 2", "0 to 1"});
  const auto three = std::make_shared<SequentialSampler>(3);
  expect_error([&] { DistributedBatchSampler(three, 4, 2, 2, false); }, {"rank", "0 to 1"});
  expect_error([&] { DistributedBatchSampler(three, 5, 2, 0, false); }, {"got 5", "multiple of"});
  expect_error([&] { DistributedBatchSampler(three, 4, 0, 0, false); }, {"num_replicas", "got 0"});
  expect_error([&] { DistributedBatchSampler(nullptr, 4, 2, 0, false); }, {"no sampler"});
  expect_error([] { BatchSampler(nullptr, 2, false); }, {"no sampler"});
  expect_error([] { BatchSampler(std::make_shared<SequentialSampler>(3), 0, false); },
               {"batch_size", "got 0"});
}

// Of a size, and with an order, as they are given.
struct Own final : Sampler {
  Own(int64_t size_in, std::shared_ptr<const Order> order_in)
      : count(size_in), all(std::move(order_in)) {}
  int64_t size() const override { return count; }
  std::shared_ptr<const Order> order(uint64_t, int64_t) const override { return all; }
  int64_t count;
  std::shared_ptr<const Order> all;
};

struct OwnBatches final : Batches {
  explicit OwnBatches(int64_t size_in) : count(size_in) {}
  int64_t size() const override { return count; }
  std::shared_ptr<const BatchOrder> order(uint64_t, int64_t) const override { return nullptr; }
  int64_t count;
};

TEST(Sampler, OfAProgramsOwnIsNotTrusted) {
  for (const int workers : {0, 2}) {
    DataLoader none =
        loader_of(8, {.sampler = std::make_shared<Own>(2, nullptr), .num_workers = workers});
    expect_error([&] { none.next(); }, {"batch 0 of epoch 0", "sampler: the order", "null"});
    DataLoader batches =
        loader_of(8, {.batch_sampler = std::make_shared<OwnBatches>(1), .num_workers = workers});
    expect_error([&] { batches.next(); }, {"batch sampler: the order", "null"});
  }
  const auto negative = std::make_shared<Own>(-2, listed_order({}));
  expect_error([&] { loader_of(8, {.sampler = negative}); }, {"size of the sampler", "got -2"});
  expect_error([] { loader_of(8, {.batch_sampler = std::make_shared<OwnBatches>(-1)}); },
               {"number of batches", "got -1"});
}

}  // namespace
}  // namespace wick::data
