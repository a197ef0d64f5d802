#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "wick/core/memory/allocator.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/random.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/kernels/sim/sanitizers.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/nn/models/registry.h"
#include "wick/nn/nn.h"
#include "wick/optim/sgd.h"

// Whole training steps on the simulated GPU: the same losses as on the CPU, no memory asked for
// once things are steady, and nothing lost when a call fails.
namespace wick::testing {
namespace {

struct Batch {
  Tensor images, labels;
};

Batch make_batch(const Shape& image, uint64_t seed, Device device) {
  Generator generator(seed);
  const Tensor images = randn(image, kFloat32, kCpu, &generator);
  const Tensor labels = randint(0, 10, {image[0]}, kInt64, kCpu, &generator);
  return {images.to(device), labels.to(device)};
}

std::shared_ptr<nn::Module> make_registered(const std::string& model, const Shape& image) {
  manual_seed(11);
  return nn::find_model(model).make({image[1], image[2], image[3]}, 10);
}

class Training {
 public:
  Training(std::shared_ptr<nn::Module> model, const Shape& image, Device device)
      : image_(image), device_(device), model_(std::move(model)) {
    model_->to(device);
    optimizer_ = std::make_unique<optim::SGD>(model_->parameters(),
                                              optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  }

  Training(const std::string& model, const Shape& image, Device device)
      : Training(make_registered(model, image), image, device) {}

  double step(uint64_t seed) {
    const Batch batch = make_batch(image_, seed, device_);
    optimizer_->zero_grad();
    const Tensor loss = cross_entropy(model_->forward(batch.images), batch.labels);
    loss.backward();
    optimizer_->step();
    return loss.item();
  }

 private:
  Shape image_;
  Device device_;
  std::shared_ptr<nn::Module> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

void expect_cpu_losses(const std::string& model, const Shape& image, int steps) {
  Training cpu(model, image, kCpu), gpu(model, image, cuda_device(0));
  for (int i = 0; i < steps; ++i) {
    const double want = cpu.step(uint64_t(i)), got = gpu.step(uint64_t(i));
    EXPECT_NEAR(got, want, 1e-4) << model << " step " << i;
  }
}

TEST(SimulatedTraining, LenetHasTheLossesOfTheCpu) {
  expect_cpu_losses("lenet", {8, 1, 28, 28}, 4);
}

TEST(SimulatedTraining, Resnet20HasTheLossesOfTheCpu) {
  expect_cpu_losses("resnet20", {8, 3, 32, 32}, 3);
}

TEST(SimulatedTraining, AsksForNoMemoryOnceSteady) {
  Training training("lenet", {8, 1, 28, 28}, cuda_device(0));
  for (uint64_t i = 0; i < 3; ++i) training.step(i);
  const MemoryStats third = memory_stats(cuda_device(0));
  for (uint64_t i = 3; i < 10; ++i) training.step(i);
  const MemoryStats tenth = memory_stats(cuda_device(0));
  for (uint64_t i = 10; i < 60; ++i) training.step(i);
  const MemoryStats last = memory_stats(cuda_device(0));
  EXPECT_EQ(last.num_device_alloc, third.num_device_alloc);
  EXPECT_EQ(last.all.allocated_bytes.current, tenth.all.allocated_bytes.current);
  EXPECT_EQ(last.all.reserved_bytes.current, tenth.all.reserved_bytes.current);
}

// A thousand steps, of two sizes of batch in turn, take what the first few took.
TEST(SimulatedTraining, TakesNoMoreMemoryAfterAThousandSteps) {
  const Device gpu = cuda_device(0);
  nn::Sequential model(nn::Linear(6, 8), nn::ReLU(), nn::Linear(8, 4));
  model.to(gpu);
  optim::SGD optimizer(model.parameters(), optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  const Tensor x = randn({6, 6}).to(gpu), target = zeros({6}, kInt64, gpu);
  const auto step = [&](int64_t batch) {
    optimizer.zero_grad();
    cross_entropy(model(x.slice(0, 0, batch)), target.slice(0, 0, batch)).backward();
    optimizer.step();
  };
  MemoryStats fourth, tenth;
  for (int i = 1; i <= 1000; ++i) {
    step(i % 2 == 0 ? 6 : 4);
    if (i == 4) fourth = memory_stats(gpu);
    if (i == 10) tenth = memory_stats(gpu);
  }
  const MemoryStats last = memory_stats(gpu);
  EXPECT_EQ(last.num_device_alloc, fourth.num_device_alloc);
  EXPECT_EQ(last.all.allocated_bytes.current, tenth.all.allocated_bytes.current);
  EXPECT_EQ(last.all.reserved_bytes.current, tenth.all.reserved_bytes.current);
}

// Every allocation that three steps make on the device fails once, whether or not it would have
// asked the driver. The error is typed, nothing is lost, and the same training goes on.
void survive_every_failed_allocation(Training& training, int64_t at_least) {
  const Device gpu = cuda_device(0);
  CachingAllocator& memory = allocator(gpu);
  training.step(0);
  const int64_t idle = memory_allocated(gpu);
  constexpr int64_t kEveryNth = WICK_SIM_TSAN ? 7 : 1;
  int64_t failures = 0;
  bool failed = true;
  for (int64_t nth = 1; failed; nth += kEveryNth) {
    failed = false;
    memory.fail_allocation(nth);
    try {
      for (uint64_t i = 0; i < 3; ++i) training.step(i);
    } catch (const OutOfMemory& error) {
      failed = true;
      ++failures;
      EXPECT_GT(error.requested_bytes(), 0u);
      EXPECT_NE(std::string(error.what()).find("out of memory on cuda:0: requested"),
                std::string::npos)
          << error.what();
    }
    memory.fail_allocation(0);
    EXPECT_TRUE(std::isfinite(training.step(9))) << "after allocation " << nth;
    EXPECT_EQ(memory_allocated(gpu), idle) << "after allocation " << nth;
  }
  EXPECT_GT(failures * kEveryNth, at_least);
}

TEST(SimulatedTraining, SurvivesEveryFailedAllocation) {
  Training training("mlp", {4, 1, 28, 28}, cuda_device(0));
  survive_every_failed_allocation(training, 50);
}

TEST(SimulatedTraining, SurvivesEveryFailedAllocationOfConvolutionsAndBatchNorm) {
  manual_seed(11);
  const auto model = std::make_shared<nn::Sequential>(
      nn::Conv2d(1, 2, 3), nn::BatchNorm2d(2), nn::ReLU(), nn::Conv2d(2, 2, 1), nn::BatchNorm2d(2),
      nn::ReLU(), nn::Flatten(), nn::Linear(18, 10));
  Training training(model, {2, 1, 5, 5}, cuda_device(0));
  survive_every_failed_allocation(training, 100);
}

// So does the driver, as it fills up while a model is made.
TEST(SimulatedTraining, SurvivesEveryFullDevice) {
  const Device gpu = cuda_device(0);
  empty_cache(gpu);
  const int64_t idle = memory_allocated(gpu);
  int failures = 0;
  for (int64_t nth = 1; failures == nth - 1; ++nth) {
    empty_cache(gpu);
    sim::fail_malloc_from(nth);
    try {
      Training("mlp", {4, 1, 28, 28}, gpu).step(0);
    } catch (const OutOfMemory&) {
      ++failures;
    }
    sim::fail_malloc_from(0);
    EXPECT_EQ(memory_allocated(gpu), idle);
  }
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace wick::testing
