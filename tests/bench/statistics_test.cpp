#include "wick/bench/runner/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "wick/bench/runner/statistics.cpp"  // of programs, so there is no library to link
#include "wick/tools/statistics.cpp"

namespace wick::bench {
namespace {

TEST(Statistics, MedianIsInTheMiddle) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_THROW(median({}), Error);
}

// Ranks from tables: of 9 values the 2nd and 8th, of 20 the 6th and 15th.
TEST(Statistics, MedianIntervalIsTheTables) {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) {
    values.push_back(i);
    const Interval interval = median_interval(values, kConfidence);
    if (i == 5) {
      EXPECT_EQ(interval.low, 1);
    }
    if (i == 9) {
      EXPECT_EQ(interval.low, 2);
      EXPECT_EQ(interval.high, 8);
    }
    if (i == 20) {
      EXPECT_EQ(interval.low, 6);
      EXPECT_EQ(interval.high, 15);
    }
  }
}

TEST(Statistics, CentreOfAFewIsUnknown) {
  EXPECT_EQ(centre({1, 2, 3}), 2);
  EXPECT_TRUE(std::isinf(centre_interval({1, 2, 3, 4, 5}).high));
  const Interval six = centre_interval({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(six.low, 1);
  EXPECT_EQ(six.high, 6);
}

// The table's 5 % point of the signed-rank sum of 8 values is 3: three means from each end go.
TEST(Statistics, CentreIntervalIsTheTables) {
  const Interval interval = centre_interval({0, 1, 10, 100, 1000, 10000, 100000, 1000000});
  EXPECT_EQ(interval.low, 5);  // after 0, 0.5, 1
}

TEST(Statistics, CentreIntervalHoldsTheCentreAsOftenAsItSays) {
  std::mt19937 random(1);
  std::cauchy_distribution<double> wild(1, 1);
  int inside = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values(8);
    for (double& value : values) value = wild(random);
    const Interval interval = centre_interval(values);
    inside += interval.low <= 1 && 1 <= interval.high;
  }
  EXPECT_GT(inside, 0.94 * kTrials);
  EXPECT_LT(inside, 0.99 * kTrials);
}

TEST(Statistics, OneOutlierOfEightMovesLittle) {
  const Interval interval = centre_interval({1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 50});
  EXPECT_LT(centre({1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 50}), 1.06);
  EXPECT_GE(interval.low, 1);
}

}  // namespace
}  // namespace wick::bench
