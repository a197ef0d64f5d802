#include "wick/nn/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/random.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

// Initial distributions: bounds are exact; means and variances are those of many numbers from a
// fixed seed, with room for five standard errors.

namespace wick::testing {
namespace {

using namespace nn;

struct Statistics {
  double mean = 0, variance = 0, low = HUGE_VAL, high = -HUGE_VAL;
};

Statistics statistics(const Tensor& tensor) {
  Statistics s;
  const std::vector<double> values = read(tensor).values;
  for (const double v : values) {
    s.mean += v;
    s.low = std::min(s.low, v);
    s.high = std::max(s.high, v);
  }
  s.mean /= static_cast<double>(values.size());
  for (const double v : values) s.variance += (v - s.mean) * (v - s.mean);
  s.variance /= static_cast<double>(values.size());
  return s;
}

void expect_uniform(const Tensor& tensor, double bound) {
  const Statistics s = statistics(tensor);
  const double n = static_cast<double>(tensor.numel()), variance = bound * bound / 3;
  EXPECT_GE(s.low, -bound);
  EXPECT_LE(s.high, bound);
  EXPECT_NEAR(s.low, -bound, 20 * bound / n);
  EXPECT_NEAR(s.high, bound, 20 * bound / n);
  EXPECT_NEAR(s.mean, 0, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(s.variance, variance, 5 * variance * std::sqrt(0.8 / n));
}

void expect_normal(const Tensor& tensor, double mean, double stddev) {
  const Statistics s = statistics(tensor);
  const double n = static_cast<double>(tensor.numel());
  EXPECT_NEAR(s.mean, mean, 5 * stddev / std::sqrt(n));
  EXPECT_NEAR(s.variance, stddev * stddev, 5 * stddev * stddev * std::sqrt(2 / n));
  EXPECT_GT(s.high, mean + 3 * stddev);
  EXPECT_LT(s.low, mean - 3 * stddev);
}

class Init : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(5); }
};

TEST_F(Init, CountsFans) {
  const init::Fans fans = init::fans(zeros({4, 3, 5, 7}));
  EXPECT_EQ(fans.in, 3 * 35);
  EXPECT_EQ(fans.out, 4 * 35);
  EXPECT_EQ(error_of([] { init::fans(zeros({4})); }),
            "init: fans need a weight of 2 axes or more: got shape [4]");
}

TEST_F(Init, FillsUniformNormalAndConstant) {
  const Tensor x = empty({100, 200});
  init::uniform_(x, -3, 3);
  expect_uniform(x, 3);
  init::normal_(x, 2, 0.5);
  expect_normal(x, 2, 0.5);
  init::constant_(x, 4);
  EXPECT_TRUE(bit_equal(x, full({100, 200}, 4)));
}

TEST_F(Init, TruncatedNormalStaysWithin) {
  const Tensor x = empty({100, 200});
  init::trunc_normal_(x, 0, 1, -1, 2);
  const Statistics s = statistics(x);
  EXPECT_GE(s.low, -1);
  EXPECT_LE(s.high, 2);
  // Mean and variance of the normal distribution cut to [-1, 2].
  EXPECT_NEAR(s.mean, 0.2296, 5 * 0.72 / std::sqrt(20000));
  EXPECT_NEAR(s.variance, 0.5200, 0.03);
  EXPECT_NE(error_of([&] { init::trunc_normal_(x, 0, 1, 2, -2); }), "no error");
  EXPECT_NE(error_of([&] { init::trunc_normal_(x, 0, 1, 50, 60); }), "no error");
}

TEST_F(Init, TruncatedNormalEndsWhereLittleIsWithin) {
  const Tensor x = empty({100, 200});
  for (const double side : {1, -1}) {
    init::trunc_normal_(x, side, 2, std::min(side * 9, side * 11), std::max(side * 9, side * 11));
    const Statistics s = statistics(x);
    EXPECT_GE(s.low, std::min(side * 9, side * 11));
    EXPECT_LE(s.high, std::max(side * 9, side * 11));
    // The mean of the standard normal distribution cut to [4, 5] is 4.2168, its deviation 0.196.
    EXPECT_NEAR(s.mean, side * (1 + 2 * 4.2168), 5 * 2 * 0.2 / std::sqrt(20000));
  }
  const Tensor coarse = empty({4}, kBFloat16);
  init::trunc_normal_(coarse, 1000, 1, 1000.5, 1002);  // whose neighbours are 1000 and 1004
  EXPECT_NEAR(coarse.to(kFloat32).to_vector<float>()[0], 1002, 2);
}

TEST_F(Init, KaimingKeepsTheVarianceOfActivations) {
  const Tensor weight = empty({64, 32, 3, 3});
  init::kaiming_uniform_(weight);
  expect_uniform(weight, std::sqrt(6.0 / (32 * 9)));
  init::kaiming_uniform_(weight, 0.5, init::FanMode::kFanOut);
  expect_uniform(weight, std::sqrt(6.0 / (1.25 * 64 * 9)));
  init::kaiming_normal_(weight);
  expect_normal(weight, 0, std::sqrt(2.0 / (32 * 9)));
  init::kaiming_normal_(weight, 0, init::FanMode::kFanOut);
  expect_normal(weight, 0, std::sqrt(2.0 / (64 * 9)));
}

TEST_F(Init, XavierBalancesBothWays) {
  const Tensor weight = empty({120, 200});
  init::xavier_uniform_(weight, 2);
  expect_uniform(weight, 2 * std::sqrt(6.0 / 320));
  init::xavier_normal_(weight);
  expect_normal(weight, 0, std::sqrt(2.0 / 320));
}

TEST_F(Init, IsUnseenByAutograd) {
  const Tensor weight = empty({3, 3});
  weight.set_requires_grad();
  init::kaiming_normal_(weight);
  EXPECT_TRUE(weight.is_leaf());
}

TEST_F(Init, LayersStartAsPyTorchsDo) {
  const Linear fc(400, 300);
  expect_uniform(fc.weight, 1 / std::sqrt(400.0));
  expect_uniform(fc.bias, 1 / std::sqrt(400.0));
  const Conv2d conv(16, 2000, 3, {.groups = 2});
  expect_uniform(conv.weight, 1 / std::sqrt(8.0 * 9));
  expect_uniform(conv.bias, 1 / std::sqrt(8.0 * 9));
  const Conv1d conv1d(30, 40, 5);
  expect_uniform(conv1d.weight, 1 / std::sqrt(150.0));
  const ConvTranspose2d transposed(30, 40, 3);
  expect_uniform(transposed.weight, 1 / std::sqrt(40 * 9.0));  // PyTorch's fan of [in, out, k, k]
  const Embedding embedding(300, 40);
  expect_normal(embedding.weight, 0, 1);
  const MultiheadAttention attention(64, 4);
  expect_uniform(attention.in_proj_weight, std::sqrt(6.0 / (4 * 64)));
  EXPECT_TRUE(bit_equal(attention.in_proj_bias.detach(), zeros({192})));
  EXPECT_TRUE(bit_equal(attention.out_proj->bias.detach(), zeros({64})));
  const BatchNorm2d norm(5);
  EXPECT_TRUE(bit_equal(norm.weight.detach(), ones({5})));
  EXPECT_TRUE(bit_equal(norm.running_var, ones({5})));
  EXPECT_TRUE(bit_equal(norm.running_mean, zeros({5})));
}

TEST_F(Init, DependsOnTheSeedAlone) {
  manual_seed(3);
  const Linear first(20, 20);
  manual_seed(3);
  const Linear second(20, 20);
  const Linear third(20, 20);
  EXPECT_TRUE(bit_equal(first.weight.detach(), second.weight.detach()));
  EXPECT_FALSE(bit_equal(first.weight.detach(), third.weight.detach()));
}

}  // namespace
}  // namespace wick::testing
