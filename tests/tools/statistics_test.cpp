#include "wick/tools/common/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "wick/core/base/check.h"

namespace wick::tool {
namespace {

constexpr double kConfidence = 0.95;

TEST(Statistics, MedianIsInTheMiddle) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(Statistics, OfNoValuesThereAreNone) {
  EXPECT_THROW(median({}), Error);
  EXPECT_THROW(median_interval({}, 0.9), Error);
  EXPECT_THROW(sequential_median_interval({}, 0.9), Error);
  EXPECT_THROW(centre({}), Error);
  EXPECT_THROW(centre_interval({}, 0.9), Error);
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

// How many values it takes before the lowest and the highest k can be left out.
TEST(Statistics, SequentialIntervalNeedsMoreValues) {
  std::vector<double> values;
  std::vector<size_t> counts;
  for (int i = 1; i <= 22; ++i) {
    values.push_back(i);
    const Interval interval = sequential_median_interval(values, 0.99);
    const auto left_out = static_cast<size_t>(interval.low) - 1;
    EXPECT_EQ(interval.high, i - static_cast<int>(left_out));
    EXPECT_EQ(interval.middle, median(values));
    if (interval.confidence >= 0.99 && counts.size() == left_out) counts.push_back(values.size());
    if (i == 8) {
      EXPECT_NEAR(interval.confidence, 1 - 2 / (512.0 / 9 * (1 - 1 / 512.0)), 1e-9);
    }
  }
  EXPECT_EQ(counts, (std::vector<size_t>{11, 15, 19, 22}));
}

// In how many of a number of experiments the true median is ever outside, if each goes on until
// then or to its end.
template <class Draw, class IntervalOf>
double ever_missed(const Draw& draw, const IntervalOf& interval_of) {
  constexpr int kTrials = 400, kMost = 60;
  int missed = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values;
    bool outside = false;
    while (!outside && values.size() < kMost) {
      values.push_back(draw());
      const Interval interval = interval_of(values, 0.9);
      outside = interval.confidence >= 0.9 && (interval.low > 1 || interval.high < 1);
    }
    missed += outside;
  }
  return missed / static_cast<double>(kTrials);
}

TEST(Statistics, OnlyTheSequentialIntervalMayBeLookedAt) {
  std::mt19937 random(1);
  std::cauchy_distribution<double> wild(1, 0.1);
  const auto draw = [&] { return wild(random); };
  EXPECT_LT(ever_missed(draw, sequential_median_interval), 0.1);
  EXPECT_GT(ever_missed(draw, median_interval), 0.2);
}

TEST(Statistics, CentreOfAFewIsUnknown) {
  EXPECT_EQ(centre({1, 2, 3}), 2);
  EXPECT_TRUE(std::isinf(centre_interval({1, 2, 3, 4, 5}, kConfidence).high));
  const Interval six = centre_interval({1, 2, 3, 4, 5, 6}, kConfidence);
  EXPECT_EQ(six.low, 1);
  EXPECT_EQ(six.high, 6);
}

// The table's 5 % point of the signed-rank sum of 8 values is 3: three means from each end go.
TEST(Statistics, CentreIntervalIsTheTables) {
  const Interval interval =
      centre_interval({0, 1, 10, 100, 1000, 10000, 100000, 1000000}, kConfidence);
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
    const Interval interval = centre_interval(values, kConfidence);
    inside += interval.low <= 1 && 1 <= interval.high;
  }
  EXPECT_GT(inside, 0.94 * kTrials);
  EXPECT_LT(inside, 0.99 * kTrials);
}

TEST(Statistics, OneOutlierOfEightMovesLittle) {
  const Interval interval =
      centre_interval({1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 50}, kConfidence);
  EXPECT_LT(centre({1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 50}), 1.06);
  EXPECT_GE(interval.low, 1);
}

}  // namespace
}  // namespace wick::tool
