// The cost model against values worked out by hand.
#include "wick/dist/scaling.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/base/check.h"

namespace wick::dist {
namespace {

using Algorithm = AllReduceAlgorithm;

// Times in units of the latency: a byte takes a thousandth, to add it a ten-thousandth.
ClusterModel simple_cluster() {
  ClusterModel cluster;
  cluster.network = {.latency = 1, .bandwidth = 1e3, .overhead = 0.5};
  cluster.add_seconds_per_byte = 1e-4;
  return cluster;
}

double reduce_seconds(Algorithm algorithm, int64_t ranks, double bytes) {
  return all_reduce_seconds(algorithm, ranks, bytes, simple_cluster());
}

TEST(Scaling, AllReduceByHand) {
  // Six steps of 1.5 + 2000 / 1000, and three quarters of 8000 bytes to add.
  EXPECT_NEAR(reduce_seconds(Algorithm::kRing, 4, 8000), 6 * 3.5 + 0.6, 1e-9);
  // Twice two steps of 1.5 + 8, two additions of all.
  EXPECT_NEAR(reduce_seconds(Algorithm::kTree, 4, 8000), 4 * 9.5 + 2 * 0.8, 1e-9);
  // Three levels for 5 ranks.
  EXPECT_NEAR(reduce_seconds(Algorithm::kTree, 5, 0), 6 * 1.5, 1e-9);
  // Four messages of 1.5; 4000, 2000, 2000 and 4000 bytes; 6000 to add.
  EXPECT_NEAR(reduce_seconds(Algorithm::kHalvingDoubling, 4, 8000), 6 + 12 + 0.6, 1e-9);
  // Six ranks: two of them give 8000 bytes to others and get them back, around the same.
  EXPECT_NEAR(reduce_seconds(Algorithm::kHalvingDoubling, 6, 8000), 18.6 + 2 * 9.5 + 0.8, 1e-9);
  // Three announcements of 408 bytes; then three messages of 8000, three additions of 8000.
  EXPECT_NEAR(reduce_seconds(Algorithm::kDirect, 4, 8000),
              (1 + 3 * 0.908) + (1 + 3 * 8.5) + 3 * 0.8, 1e-9);
  // One block: three messages of 2500 bytes twice.
  EXPECT_NEAR(reduce_seconds(Algorithm::kDirect, 4, 10'000),
              (1 + 3 * 0.908) + 2 + 6 * (0.5 + 2.5) + 0.75, 1e-9);
  // Blocks of four slots of a megabyte: two for 5 MiB.
  const double large = 5 << 20;
  EXPECT_NEAR(reduce_seconds(Algorithm::kDirect, 4, large),
              (1 + 3 * 0.908) + 2 + 12 * 0.5 + 1.5 * large * 1e-3 + 0.75 * large * 1e-4, 1e-6);
  for (const Algorithm one : {Algorithm::kDirect, Algorithm::kRing, Algorithm::kTree,
                              Algorithm::kHalvingDoubling, Algorithm::kHierarchical}) {
    EXPECT_EQ(reduce_seconds(one, 1, 8000), 0);
  }
  EXPECT_THROW(reduce_seconds(Algorithm::kRing, 0, 1), Error);
}

TEST(Scaling, HierarchicalByHand) {
  ClusterModel cluster = simple_cluster();
  cluster.ranks_per_host = 4;
  cluster.host = {.latency = 0.01, .bandwidth = 1e6, .overhead = 0};
  const double within = (0.01 + 3 * 408e-6) + 0.02 + 1.5 * 0.02 + 0.75 * 2.0;
  const double back = 0.01 + 0.02;
  EXPECT_NEAR(all_reduce_seconds(Algorithm::kHierarchical, 4, 20'000, cluster), within + back,
              1e-9);
  // Two hosts exchange halves.
  const double among = 2 * 1.5 + 20 + 1;
  EXPECT_NEAR(all_reduce_seconds(Algorithm::kHierarchical, 8, 20'000, cluster),
              within + among + back, 1e-9);
  cluster.ranks_per_host = 1;
  EXPECT_NEAR(all_reduce_seconds(Algorithm::kHierarchical, 2, 20'000, cluster), among, 1e-9);
}

TEST(Scaling, BroadcastByHand) {
  EXPECT_NEAR(broadcast_seconds(4, 1000, simple_cluster()), (1 + 3 * 0.908) + 1 + 3 * (0.5 + 1),
              1e-9);
  EXPECT_EQ(broadcast_seconds(1, 1000, simple_cluster()), 0);
}

TEST(Scaling, BucketsOverlapWithBackward) {
  const std::vector<TimedGradient> gradients = {{1, 10}, {2, 10}, {3, 50}, {5, 5}, {6, 1}};
  const std::vector<TimedGradient> buckets = buckets_of(gradients, 15, 50);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].ready, 2);
  EXPECT_EQ(buckets[0].bytes, 20);
  EXPECT_EQ(buckets[1].bytes, 50);
  EXPECT_EQ(buckets[2].ready, 6);
  EXPECT_EQ(buckets[2].bytes, 6);
  const auto tenth = [](double bytes) { return bytes / 10; };
  // From 2 to 4, from 4 to 9, from 9 to 9.6; computation is over at 7.
  EXPECT_DOUBLE_EQ(backward_seconds(7, buckets, tenth), 9.6);
  EXPECT_DOUBLE_EQ(backward_seconds(20, buckets, tenth), 20);
  EXPECT_DOUBLE_EQ(backward_seconds(7, {}, tenth), 7);
}

TEST(Scaling, StepIsItsParts) {
  const StepModel step{.forward = 10,
                       .backward = 20,
                       .update = 3,
                       .deviation = 2,
                       .buckets = {{20, 8000}},
                       .buffers = {1000, 1000}};
  const ClusterModel cluster = simple_cluster();
  EXPECT_DOUBLE_EQ(step_seconds(step, 1, Algorithm::kRing, cluster), 33);
  EXPECT_NEAR(step_seconds(step, 4, Algorithm::kRing, cluster),
              33 + 2 * expected_largest(4) + 2 * broadcast_seconds(4, 1000, cluster) + 21.6, 1e-9);
}

// Harter 1961, table I.
TEST(Scaling, ExpectedLargestOfNormals) {
  EXPECT_NEAR(expected_largest(1), 0, 1e-12);
  EXPECT_NEAR(expected_largest(2), 1 / std::sqrt(M_PI), 1e-9);
  EXPECT_NEAR(expected_largest(4), 1.02938, 1e-5);
  EXPECT_NEAR(expected_largest(10), 1.53875, 1e-5);
  EXPECT_NEAR(expected_largest(100), 2.50759, 1e-5);
}

TEST(Scaling, CheckpointsByHand) {
  const FailureModel failures{.between_failures = 20'000, .checkpoint = 100, .restart = 200};
  EXPECT_NEAR(young_interval(failures), 2000, 1e-9);
  // 2000 (1 + 0.05 / 3 + 0.0025 / 9) - 100
  EXPECT_NEAR(daly_interval(failures), 1933.888889, 1e-5);
  // A checkpoint takes longer than the job lives.
  EXPECT_EQ(daly_interval({.between_failures = 10, .checkpoint = 20}), 10);
  // 2000 / (20000 e^0.01 (e^0.105 - 1))
  EXPECT_NEAR(useful_share(failures, 2000), 0.894268, 1e-5);
  const double best = useful_share(failures, daly_interval(failures));
  for (const double other : {0.7, 0.9, 1.1, 1.4}) {
    EXPECT_LT(useful_share(failures, other * daly_interval(failures)), best);
  }
  EXPECT_THROW(useful_share(failures, 0), Error);
}

}  // namespace
}  // namespace wick::dist
