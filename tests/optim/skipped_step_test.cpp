#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/loss.h"
#include "wick/core/stream.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/harness/deterministic.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/optim/reference.h"

// A whole training step, with infinities where they come from: nothing but the scale may change.

namespace wick::testing {
namespace {

using namespace optim;

struct Net : nn::Module {
  nn::Handle<nn::Conv2d> conv = add("conv", nn::Conv2d(3, 8, 3));
  nn::Handle<nn::BatchNorm2d> norm = add("norm", nn::BatchNorm2d(8));
  nn::Handle<nn::Linear> fc = add("fc", nn::Linear(8, 4));
  bool spoil_activation = false;

  Tensor forward(const Tensor& x) override {
    Tensor y = norm(conv(x)).relu();
    if (spoil_activation) y = y * static_cast<double>(INFINITY);
    return fc(y.mean({2, 3}));
  }
};

// Everything that training moves on, but for the scaler.
struct Training {
  Net net;
  std::unique_ptr<SGD> optimizer;
  std::unique_ptr<OneCycleLR> schedule;
  std::unique_ptr<DeviceSchedule> counted;
  std::unique_ptr<Rollback> rollback;
  std::unique_ptr<Ema> ema;
  amp::GradScaler scaler;

  explicit Training(Device device) {
    for (const Tensor& param : net.parameters()) {
      param.detach().copy_(random_tensor(param.shape(), static_cast<uint64_t>(param.numel())));
    }
    net.to(device);
    optimizer = std::make_unique<SGD>(net.parameters(), SGDOptions{.lr = 0.1, .momentum = 0.9});
    schedule =
        std::make_unique<OneCycleLR>(*optimizer, OneCycleOptions{.max_lr = 0.1, .total_steps = 20});
    counted = std::make_unique<DeviceSchedule>(*schedule, 20);
    rollback = std::make_unique<Rollback>(buffers_of(net));
    std::vector<Tensor> averaged = net.parameters();
    for (const Tensor& buffer : buffers_of(net)) {
      if (is_floating(buffer.dtype())) averaged.push_back(buffer);
    }
    ema = std::make_unique<Ema>(averaged, 0.9);
  }

  void step(uint64_t seed, bool bad_activation, bool bad_gradient) {
    const Device device = net.parameters()[0].device();
    const Tensor x = random_tensor({4, 3, 6, 6}, seed).to(device);
    const Tensor target = tensor(std::vector<int64_t>{0, 1, 2, 3}).to(device);
    optimizer->zero_grad();
    rollback->remember();
    net.spoil_activation = bad_activation;
    scaler.scale(cross_entropy(net(x), target)).backward();
    if (bad_gradient) net.parameters()[2].grad()[5].fill_(NAN);
    scaler.step(*optimizer, 1.0);
    const Tensor found = scaler.found_inf(*optimizer);
    rollback->restore(found);
    ema->update(found);
    counted->step(found);
    scaler.update();
  }

  TensorMap state() {
    counted->settle();
    TensorMap all;
    add_copies(all, "net.", net.state_dict());
    add_copies(all, "optimizer.", optimizer->state_dict());
    add_copies(all, "schedule.", schedule->state_dict());
    add_copies(all, "ema.", ema->state_dict());
    return all;
  }
};

void expect_changed(const TensorMap& got, const TensorMap& before) {
  ASSERT_EQ(got.size(), before.size());
  bool equal = true;
  for (const auto& [name, value] : before) {
    equal = equal && got.contains(name) && bit_equal(got.at(name), value);
  }
  EXPECT_FALSE(equal);
}

void train_with_infinities(Device device) {
  Training spoilt(device), plain(device);
  uint64_t taken = 0;
  for (int step = 0; step < 10; ++step) {
    const bool bad_activation = step == 1 || step == 6, bad_gradient = step == 2 || step == 6;
    if (bad_activation || bad_gradient) {
      const TensorMap before = spoilt.state();
      spoilt.step(99, bad_activation, bad_gradient);
      expect_same(spoilt.state(), before);
      EXPECT_LT(spoilt.scaler.get_scale(), 65536);
      continue;
    }
    const TensorMap before = step == 0 ? TensorMap() : spoilt.state();
    spoilt.step(++taken, false, false);
    plain.step(taken, false, false);
    if (step > 0) expect_changed(spoilt.state(), before);
  }
  // Scales are powers of two: a run that never saw infinities has the same bits.
  expect_same(spoilt.state(), plain.state());
}

TEST(SkippedStep, ChangesNothingButTheScale) { train_with_infinities(kCpu); }
TEST(SkippedStep, ChangesNothingButTheScaleOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  const Deterministic same_bits;  // of convolutions, too
  train_with_infinities(cuda_device(0));
}

TEST(SkippedStep, MakesNobodyWait) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  Training training(cuda_device(0));
  training.step(1, false, false);
  const Device device = cuda_device(0);
  const Tensor x = random_tensor({4, 3, 6, 6}, 1).to(device);
  const Tensor target = tensor(std::vector<int64_t>{0, 1, 2, 3}).to(device);
  const int64_t before = synchronization_count();
  for (int step = 0; step < 100; ++step) {
    training.optimizer->zero_grad();
    training.rollback->remember();
    training.net.spoil_activation = step % 7 == 3;
    training.scaler.scale(cross_entropy(training.net(x), target)).backward();
    training.scaler.step(*training.optimizer, 1.0);
    const Tensor found = training.scaler.found_inf(*training.optimizer);
    training.rollback->restore(found);
    training.ema->update(found);
    training.counted->step(found);
    training.scaler.update();
  }
  EXPECT_EQ(synchronization_count(), before);
}

}  // namespace
}  // namespace wick::testing
