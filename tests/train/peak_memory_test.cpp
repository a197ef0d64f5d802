#include "wick/train/peak_memory.h"

#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/core/memory/stats.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick {
namespace {

using train::PeakPrediction;
using train::predict_peak_memory;

class PeakMemory : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (!GetParam().is_cpu() && !cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  }

  // How far the prediction is from what steps of `batch` samples then hold, as a share.
  double error(nn::Module& model, const Shape& sample, int64_t batch) {
    const Device device = GetParam();
    model.to(device);
    optim::AdamW optimizer(model.parameters());
    const auto step = [&](int64_t samples) {
      Shape shape = sample;
      shape[0] = samples;
      optimizer.zero_grad();
      const Tensor y = model(randn(shape, kFloat32, device));
      y.pow(2).mean().backward();
      optimizer.step();
    };
    const PeakPrediction predicted = predict_peak_memory(model, optimizer, device, batch, step);
    reset_peak_memory_stats(device);
    for (int i = 0; i < 3; ++i) step(batch);
    const auto held = static_cast<double>(max_memory_allocated(device));
    return std::abs(static_cast<double>(predicted.bytes) - held) / held;
  }
};

TEST_P(PeakMemory, OfAPerceptronWhoseWeightsAreMost) {
  nn::Sequential model{nn::Linear(64, 1024), nn::ReLU(), nn::Linear(1024, 64)};
  EXPECT_LT(error(model, {0, 64}, 64), 0.1);
  EXPECT_LT(error(model, {0, 64}, 2048), 0.1);  // where activations are
}

TEST_P(PeakMemory, OfAConvolutionalNetwork) {
  nn::Sequential model{nn::Conv2d(3, 32, 3, {.padding = 1}),
                       nn::BatchNorm2d(32),
                       nn::ReLU(),
                       nn::MaxPool2d(2),
                       nn::Flatten(),
                       nn::Linear(2048, 10)};
  EXPECT_LT(error(model, {0, 3, 16, 16}, 48), 0.1);
}

TEST_P(PeakMemory, OfAnEncoder) {
  nn::TransformerEncoder model(32, 2, 2, {.dim_feedforward = 64, .batch_first = true});
  EXPECT_LT(error(model, {0, 16, 32}, 40), 0.1);
}

TEST_P(PeakMemory, LeavesTheTrainingAsItWas) {
  const Device device = GetParam();
  nn::Linear model(4, 4);
  model.to(device);
  optim::AdamW optimizer(model.parameters());
  const Tensor before = model.weight.cpu().clone();
  const size_t state = optimizer.state_dict().size();
  manual_seed(3);
  const auto step = [&](int64_t samples) {
    model(randn({samples, 4}, kFloat32, device)).sum().backward();
    optimizer.step();
    optimizer.zero_grad();
  };
  predict_peak_memory(model, optimizer, device, 9, step);
  EXPECT_TRUE(model.weight.cpu().equal(before));
  EXPECT_EQ(optimizer.state_dict().size(), state);  // none of a step
  const Tensor drawn = rand({3});
  manual_seed(3);
  EXPECT_TRUE(rand({3}).equal(drawn));
  EXPECT_EQ(memory_history_limit(device), 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, PeakMemory, ::testing::Values(kCpu, cuda_device(0)),
                         [](const auto& device) { return device.param.is_cpu() ? "cpu" : "cuda"; });

// Sizes that ask for other blocks: the peaks alone are extrapolated.
TEST(PeakMemoryOfSteps, ThatDifferWithTheirSize) {
  nn::Linear model(4, 4);
  optim::SGD optimizer(model.parameters());
  std::vector<Tensor> held;
  const auto step = [&](int64_t samples) {
    held.clear();
    for (int64_t i = 0; i < samples; ++i) held.push_back(empty({1 << 20}, kUint8));
  };
  const PeakPrediction predicted = predict_peak_memory(model, optimizer, kCpu, 16, step);
  EXPECT_FALSE(predicted.by_block);
  EXPECT_NEAR(static_cast<double>(predicted.bytes), 16.0 * (1 << 20), 1.6 * (1 << 20));
}

TEST(PeakMemoryOfSteps, RefusesABatchOfNone) {
  nn::Linear model(4, 4);
  optim::SGD optimizer(model.parameters());
  const std::string error =
      testing::error_of([&] { predict_peak_memory(model, optimizer, kCpu, 0, [](int64_t) {}); });
  EXPECT_EQ(error, "predict_peak_memory: wrong batch: got 0, expected 1 or more");
}

}  // namespace
}  // namespace wick
