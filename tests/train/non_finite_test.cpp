#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "wick/core/stream.h"
#include "wick/tests/dist/ranks.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/train/small_run.h"

// A run ends in the step in which a loss, a gradient or a weight becomes infinite or NaN.

namespace wick::testing {
namespace {

using train::TrainerOptions;

// Of `idle` the loss knows the first element alone.
struct Net : nn::Module {
  nn::Handle<nn::Linear> fc = add("fc", nn::Linear(4, 4));
  nn::Parameter idle = add_parameter("idle", ones({3}));
  Tensor forward(const Tensor& x) override { return fc(x) + idle[0] * 0.0; }
};

// kIdleBetween: between two steps.
enum class Plant { kNothing, kLoss, kGradient, kWeight, kIdleWeight, kIdleBetween };

void spoil(const Tensor& tensor, int64_t i) { tensor.detach().view({-1})[i].fill_(NAN); }

// What a run says that ends by what is planted in its 4th batch. `waits`: how often the host waited
// for a GPU, beside once for each time that it read figures.
std::string end_of_run(Plant plant, TrainerOptions options, Device device = kCpu,
                       int64_t* waits = nullptr) {
  manual_seed(3);
  auto model = std::make_shared<Net>();
  model->to(device);
  auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 0.01});
  int64_t batches = 0;
  bool is_planted = false;
  const auto loss = [&](const data::Batch& batch) {
    const bool plants = is_planted && std::exchange(is_planted, false);
    if (plants && plant == Plant::kWeight) spoil(model->fc->weight, 5);
    if (plants && plant == Plant::kIdleWeight) spoil(model->idle, 2);
    train::BatchLoss result{cross_entropy((*model)(batch[0]), batch[1])};
    if (plants && plant == Plant::kLoss) result.loss = result.loss * NAN;
    // 0, whose derivative is 0 times infinity.
    if (plants && plant == Plant::kGradient) {
      result.loss = result.loss + (model->fc->bias[2] * 0.0).sqrt();
    }
    return result;
  };
  train::TrainData data{.train = rows(80), .loading = {.batch_size = 8}};
  data.prepare = [&](data::Batch batch, int64_t, int64_t) {
    is_planted = ++batches == 4;
    return batch;
  };
  const train::Trainer* running = nullptr;
  std::set<int64_t> readings;
  options.eval_every = 0;
  options.on_step = [&](const train::StepEvent& event) {
    readings.insert(running->step());
    if (event.step == 3 && plant == Plant::kIdleBetween) spoil(model->idle, 2);
  };
  train::Trainer trainer(model, optimizer, loss, data, options);
  running = &trainer;
  const int64_t before = synchronization_count();
  try {
    trainer.run();
  } catch (const train::Diverged& error) {
    EXPECT_TRUE(device.is_cuda() || trainer.step() == 4) << trainer.step();
    return error.what();
  }
  if (waits != nullptr) *waits = synchronization_count() - before - std::ssize(readings);
  return "";
}

constexpr const char* kOfGradient =
    "train: weights became infinite or NaN at step 4: 1 of 4 elements of fc.bias, and 1 of 4 "
    "elements of its gradient";
constexpr const char* kOfIdle =
    "train: weights became infinite or NaN at step 4: 1 of 3 elements of idle, whose gradient is "
    "finite";

TEST(NonFiniteRun, EndsInTheStep) {
  for (const std::optional<Dtype> autocast : {std::optional<Dtype>(), std::optional(kBFloat16)}) {
    for (const int64_t pieces : {1, 4}) {
      for (const std::optional<double> norm : {std::optional<double>(), std::optional(10.0)}) {
        const TrainerOptions options{
            .step = {.autocast = autocast, .clip_norm = norm, .accumulate = pieces}};
        EXPECT_EQ(end_of_run(Plant::kNothing, options), "");
        EXPECT_EQ(end_of_run(Plant::kLoss, options), "train: the loss became nan at step 4");
        EXPECT_EQ(end_of_run(Plant::kWeight, options), "train: the loss became nan at step 4");
        EXPECT_EQ(end_of_run(Plant::kIdleWeight, options), kOfIdle);
        // Clipped, each gradient is divided by a norm that is NaN.
        const std::string end = end_of_run(Plant::kGradient, options);
        if (norm) {
          EXPECT_NE(end.find("weights became infinite or NaN at step 4"), end.npos) << end;
        } else {
          EXPECT_EQ(end, kOfGradient);
        }
      }
    }
  }
}

// With float16 a step whose gradients are not finite is skipped. Weights are never mended.
TEST(NonFiniteRun, EndsInTheStepOfAWeightWithScaledLosses) {
  const TrainerOptions options{.step = {.autocast = kFloat16}};
  for (const Plant plant : {Plant::kNothing, Plant::kLoss, Plant::kGradient}) {
    EXPECT_EQ(end_of_run(plant, options), "");
  }
  const std::string end = end_of_run(Plant::kWeight, options);
  EXPECT_NE(end.find("NaN at step 4: 1 of 16 elements of fc.weight"), end.npos) << end;
  EXPECT_EQ(end_of_run(Plant::kIdleWeight, options), kOfIdle);
}

TEST(NonFiniteRun, EndsInTheStepOfACompiledRun) {
  for (const char* mode : {"fuse", "full"}) {
    EXPECT_EQ(end_of_run(Plant::kNothing, {.step = {.compile = mode}}), "");
    EXPECT_EQ(end_of_run(Plant::kIdleBetween, {.step = {.compile = mode}}), kOfIdle);
  }
}

TEST(NonFiniteRun, NamesTheStepOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  for (const bool captured : {false, true}) {
    const TrainerOptions options{.step = {.cuda_graph = captured}};
    EXPECT_EQ(end_of_run(Plant::kNothing, options, kGpu), "");
    if (captured) continue;  // what a loss function does to the weights is not repeated
    EXPECT_EQ(end_of_run(Plant::kLoss, options, kGpu), "train: the loss became nan at step 4");
    for (const Plant plant : {Plant::kGradient, Plant::kIdleWeight}) {
      const std::string end = end_of_run(plant, options, kGpu);
      EXPECT_NE(end.find("weights became infinite or NaN at step 4"), end.npos) << end;
    }
  }
}

TEST(NonFiniteRun, GoesOnIfItIsToldTo) {
  const TrainerOptions options{.step = {.allow_non_finite = true}};
  EXPECT_EQ(end_of_run(Plant::kIdleWeight, options), "");
}

TEST(NonFiniteRun, EndsOnAllRanksInTheStep) {
  for (const bool zero : {false, true}) {
    for (const Plant plant : {Plant::kLoss, Plant::kGradient, Plant::kIdleWeight}) {
      // Its owner sends the others what the weight is.
      if (zero && plant == Plant::kIdleWeight) continue;
      std::vector<std::string> ends(2);
      dist::on_ranks(2, [&](const dist::Group& group) {
        TrainerOptions options{.zero = zero};
        options.ranks = train::Ranks(group, group->rank());
        // Of one rank alone.
        const auto own = group->rank() == 1 ? plant : Plant::kNothing;
        ends[static_cast<size_t>(group->rank())] = end_of_run(own, options);
      });
      for (const std::string& end : ends) {
        EXPECT_NE(end.find("at step 4"), end.npos) << end << static_cast<int>(plant) << zero;
      }
    }
  }
}

// The host waits as often as without: the flag is read with the other figures.
TEST(NonFiniteRun, WaitsForAGpuNoMoreOften) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  int64_t with = 0, without = 0;
  EXPECT_EQ(end_of_run(Plant::kNothing, {}, kGpu, &with), "");
  EXPECT_EQ(end_of_run(Plant::kNothing, {.step = {.allow_non_finite = true}}, kGpu, &without), "");
  EXPECT_EQ(with, without);
}

}  // namespace
}  // namespace wick::testing
