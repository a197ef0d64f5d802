#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

using nn::BatchNorm1d;
using nn::BatchNorm2d;

// Mean and unbiased variance of each channel of x [N, C, ...].
struct ChannelStatistics {
  explicit ChannelStatistics(const Tensor& x) {
    const HostArray a = read(x);
    const auto channels = static_cast<size_t>(x.size(1));
    const size_t inner = a.values.size() / static_cast<size_t>(x.size(0)) / channels;
    std::vector<std::vector<double>> of(channels);
    for (size_t i = 0; i < a.values.size(); ++i) of[i / inner % channels].push_back(a.values[i]);
    for (const auto& values : of) {
      double sum = 0, squares = 0;
      for (const double v : values) sum += v;
      mean.push_back(sum / static_cast<double>(values.size()));
      for (const double v : values) squares += (v - mean.back()) * (v - mean.back());
      variance.push_back(squares / static_cast<double>(values.size() - 1));
    }
  }
  std::vector<double> mean, variance;
};

TEST(BatchNorm, FollowsTheBatchesItSees) {
  BatchNorm2d layer(3, {.momentum = 0.25});
  std::vector<double> mean(3, 0), variance(3, 1);
  for (int step = 1; step <= 3; ++step) {
    const Tensor x = randn({4, 3, 5, 2}) * step + 1.0;
    const Tensor y = layer(x);
    const ChannelStatistics batch(x), normalised(y);
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(normalised.mean[c], 0, 1e-5);
      EXPECT_NEAR(normalised.variance[c], 40.0 / 39, 1e-3);
      mean[c] = 0.75 * mean[c] + 0.25 * batch.mean[c];
      variance[c] = 0.75 * variance[c] + 0.25 * batch.variance[c];
      EXPECT_NEAR(read(layer.running_mean).values[c], mean[c], 1e-5);
      EXPECT_NEAR(read(layer.running_var).values[c], variance[c], 1e-4);
    }
    EXPECT_EQ(layer.num_batches_tracked.item<int64_t>(), step);
  }
}

TEST(BatchNorm, TakesTheMeansOverAllBatchesWithoutMomentum) {
  BatchNorm2d layer(3, {.momentum = {}});
  std::vector<double> mean(3, 0), variance(3, 0);
  for (int step = 1; step <= 3; ++step) {
    const Tensor x = randn({4, 3, 5, 2}) * step + 1.0;
    const Tensor y = step == 2 ? layer.forward_relu(x) : layer(x);
    const ChannelStatistics batch(x);
    for (size_t c = 0; c < 3; ++c) {
      mean[c] += (batch.mean[c] - mean[c]) / step;
      variance[c] += (batch.variance[c] - variance[c]) / step;
      EXPECT_NEAR(read(layer.running_mean).values[c], mean[c], 1e-5);
      EXPECT_NEAR(read(layer.running_var).values[c], variance[c], 1e-4);
    }
    EXPECT_EQ(layer.num_batches_tracked.item<int64_t>(), step);
  }
  const Tensor kept = layer.running_mean.clone();
  layer.eval()(randn({4, 3, 5, 2}));
  EXPECT_TRUE(bit_equal(layer.running_mean, kept));
}

TEST(BatchNorm, HasNoBiasWhereToldSo) {
  const Tensor x = randn({6, 3});
  BatchNorm1d layer(3, {.bias = false}), among_ranks(3, {.bias = false});
  EXPECT_EQ(layer.parameters().size(), 1u);
  among_ranks.sum_over_ranks = [](const Tensor& sums) { return sums; };
  const Tensor y = batch_norm(x, ones({3}), {}, {}, {});
  EXPECT_TRUE(bit_equal(layer(x).detach(), y));
  EXPECT_LT((among_ranks(x) - y).abs().max().item(), 1e-5);
}

TEST(BatchNorm, UsesItsRunningStatisticsInEvaluation) {
  BatchNorm2d layer(3);
  layer(randn({4, 3, 5, 2}) + 2.0);
  layer.eval();
  const Tensor mean = layer.running_mean.clone(), x = randn({1, 3, 2, 2});
  const Tensor y = layer(x);
  const HostArray got = read(y), in = read(x);
  for (size_t i = 0; i < got.values.size(); ++i) {
    const size_t c = i / 4;
    const double want =
        (in.values[i] - read(mean).values[c]) / std::sqrt(read(layer.running_var).values[c] + 1e-5);
    EXPECT_NEAR(got.values[i], want, 1e-5);
  }
  EXPECT_TRUE(bit_equal(layer.running_mean, mean));
  EXPECT_EQ(layer.num_batches_tracked.item<int64_t>(), 1);
}

TEST(BatchNorm, FusesReluAndResidual) {
  for (const bool training : {true, false}) {
    BatchNorm2d fused(3), plain(3);
    fused.train(training);
    plain.train(training);
    const Tensor x = randn({4, 3, 5, 2}), residual = randn({4, 3, 5, 2});
    EXPECT_EQ(difference(read(fused.forward_relu(x)), read(relu(plain(x))), 1e-6, 1e-6), "");
    EXPECT_EQ(difference(read(fused.forward_add_relu(x, residual)), read(relu(plain(x) + residual)),
                         1e-6, 1e-6),
              "");
    EXPECT_EQ(difference(read(fused.running_mean), read(plain.running_mean), 1e-6, 1e-6), "");
    EXPECT_TRUE(bit_equal(fused.num_batches_tracked, plain.num_batches_tracked));
  }
}

TEST(BatchNorm, GoesWithoutWeightsOrStatistics) {
  BatchNorm2d layer(3, {.affine = false, .track_running_stats = false});
  EXPECT_TRUE(layer.state_dict().empty());
  layer.eval();  // the batch's own statistics even so
  const ChannelStatistics y(layer(randn({4, 3, 5, 2}) + 7.0));
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(y.mean[c], 0, 1e-5);
}

TEST(BatchNorm, HasPyTorchsStateNames) {
  std::string names;
  for (const auto& entry : BatchNorm2d(3).state_dict()) names += entry.first + " ";
  EXPECT_EQ(names, "bias num_batches_tracked running_mean running_var weight ");
}

TEST(BatchNorm, TakesTheAxesItIsMadeFor) {
  BatchNorm1d one(3);
  EXPECT_EQ(one(randn({4, 3})).shape(), (Shape{4, 3}));
  EXPECT_EQ(one(randn({4, 3, 2})).shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(error_of([&] {
              one(randn({4, 3, 2, 2}));
            }),
            "BatchNorm1d: wrong number of axes: got shape [4, 3, 2, 2], expected 2 or 3");
  BatchNorm2d two(3);
  EXPECT_EQ(error_of([&] {
              two(randn({4, 3}));
            }),
            "BatchNorm2d: wrong number of axes: got shape [4, 3], expected 4");
  EXPECT_EQ(error_of([] { BatchNorm2d(0); }), "BatchNorm2d: features must be 1 or more: got 0");
}

TEST(BatchNorm, ARefusedBatchIsNotCounted) {
  BatchNorm2d layer(3);
  EXPECT_NE(error_of([&] { layer(randn({4, 5, 2, 2})); }), "no error");
  EXPECT_NE(error_of([&] { layer(randn({1, 3, 1, 1})); }), "no error");  // one value per channel
  EXPECT_EQ(layer.num_batches_tracked.item<int64_t>(), 0);
  EXPECT_TRUE(bit_equal(layer.running_var, ones({3})));
}

}  // namespace
}  // namespace wick::testing
