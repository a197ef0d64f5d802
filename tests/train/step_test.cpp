#include "wick/train/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/graph/host_call.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/train/small_run.h"

namespace wick::testing {
namespace {

data::Batch batch_of(int64_t count, Device device = kCpu) {
  Generator generator(7);
  const Tensor x = randn({count, 4}, kFloat32, kCpu, &generator);
  return {{x.to(device), x.argmax(1).to(device)}};
}

std::shared_ptr<nn::Sequential> plain_model(Device device) {
  manual_seed(3);
  auto model = std::make_shared<nn::Sequential>(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 4));
  model->to(device);
  return model;
}

std::vector<double> numbers(const Tensor& x) { return x.to(kFloat64).to(kCpu).to_vector<double>(); }

TEST(TrainStep, PiecesGiveTheGradientsAndFiguresOfTheWholeBatch) {
  for (const Device device : devices()) {
    const data::Batch batch = batch_of(10, device);
    std::vector<std::vector<double>> grads, figures;
    for (const int64_t pieces : {1, 3, 20}) {
      const auto model = plain_model(device);
      optim::SGD sgd(model->parameters(), {.lr = 0.1});
      train::Step step(model, sgd, small_loss(model), {.accumulate = pieces});
      const train::Step::Result result = step.backpropagate(batch);
      grads.push_back(numbers(model->parameters()[0].grad()));
      figures.push_back({result.loss.item(), result.sums[0].second.item()});
      EXPECT_FALSE(result.loss.requires_grad());
    }
    for (size_t i = 1; i < grads.size(); ++i) {
      for (size_t k = 0; k < grads[0].size(); ++k) EXPECT_NEAR(grads[i][k], grads[0][k], 1e-6);
      EXPECT_NEAR(figures[i][0], figures[0][0], 1e-6);
      EXPECT_EQ(figures[i][1], figures[0][1]);
    }
  }
}

TEST(TrainStep, ASkippedStepChangesNothing) {
  for (const Device device : devices()) {
    const auto model = small_model(device);
    optim::AdamW adamw(model->parameters(), {.lr = 0.1});
    bool is_broken = false;
    const auto loss = [&](const data::Batch& batch) {
      train::BatchLoss result = small_loss(model)(batch);
      if (is_broken) result.loss = result.loss * 1e30;
      return result;
    };
    train::Step step(model, adamw, loss, {.autocast = kFloat16, .ema = 0.5});
    while (step.take(batch_of(8, device)).skipped.item() != 0) {
    }  // the first scale may be too large
    std::map<std::string, std::vector<double>> before;
    for (const auto& [name, tensor] : model->state_dict()) before[name] = numbers(tensor);
    const auto averages = step.ema()->state_dict();
    is_broken = true;
    EXPECT_NE(step.take(batch_of(8, device)).skipped.item(), 0);
    for (const auto& [name, tensor] : model->state_dict()) {
      EXPECT_EQ(numbers(tensor), before[name]) << name;
    }
    for (const auto& [name, tensor] : step.ema()->state_dict()) {
      EXPECT_EQ(numbers(tensor), numbers(averages.at(name))) << name;
    }
  }
}

TEST(TrainStep, AReplayedStepDoesWhatAnEagerOneDoes) {
  if (!cuda_is_available()) GTEST_SKIP() << "a step is captured on a GPU, of which there is none";
  std::vector<std::vector<double>> weights, figures(2);
  for (const bool is_captured : {false, true}) {
    const auto model = plain_model(kGpu);
    optim::AdamW adamw(model->parameters(), {.lr = 0.01});
    train::Step step(model, adamw, small_loss(model), {.cuda_graph = is_captured});
    for (int i = 0; i < 6; ++i) {
      const train::Step::Result result = step.take_or_replay(batch_of(8 - i % 2, kGpu));
      figures[is_captured].push_back(result.loss.item());
      figures[is_captured].push_back(result.sums[0].second.item());
    }
    weights.push_back(numbers(model->parameters()[0]));
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_EQ(figures[0], figures[1]);
}

// Over skipped steps, clipping, averages, accumulation, dropout and batches of two sizes.
TEST(TrainStep, ACompiledStepDoesWhatAnEagerOneDoes) {
  const std::vector<train::StepOptions> all = {
      {},
      {.clip_norm = 0.5, .clip_value = 0.1, .ema = 0.9},
      {.autocast = kBFloat16},
      {.autocast = kFloat16, .clip_value = 0.1, .ema = 0.5},
      {.accumulate = 2}};
  for (const train::StepOptions& given : all) {
    std::vector<double> weights[3], figures[3];
    const char* const modes[] = {"off", "fuse", "full"};
    for (size_t k = 0; k < 3; ++k) {
      manual_seed(7);
      const auto model = std::make_shared<nn::Sequential>(
          nn::Linear(4, 16), nn::BatchNorm1d(16), nn::GELU(), nn::Dropout(0.2), nn::Linear(16, 4));
      optim::AdamW adamw(model->parameters(), {.lr = 0.01});
      train::StepOptions options = given;
      options.compile = modes[k];
      train::Step step(model, adamw, small_loss(model), options);
      for (int i = 0; i < 9; ++i) {
        adamw.set_lr(0.01 / (i + 1));
        const train::Step::Result result = step.take_or_replay(batch_of(8 - 2 * (i % 3 == 2)));
        figures[k].push_back(result.loss.item());
        figures[k].push_back(result.sums[0].second.item());
        if (result.grad_norm.defined()) figures[k].push_back(result.grad_norm.item());
        if (result.skipped.defined()) figures[k].push_back(result.skipped.item());
      }
      for (const auto& [name, tensor] : model->state_dict()) {
        const std::vector<double> values = numbers(tensor);
        weights[k].insert(weights[k].end(), values.begin(), values.end());
      }
    }
    EXPECT_EQ(weights[0], weights[1]);
    EXPECT_EQ(figures[0], figures[1]);
    EXPECT_EQ(weights[0], weights[2]);
    EXPECT_EQ(figures[0], figures[2]);
  }
}

// What is captured is a run of the graph: over rates that change, skipped steps, clipping,
// averages, accumulation, dropout and batches of two sizes.
TEST(TrainStep, AReplayedCompiledStepDoesWhatACompiledOneDoes) {
  if (!cuda_is_available()) GTEST_SKIP() << "a step is captured on a GPU, of which there is none";
  const std::vector<train::StepOptions> all = {{.clip_norm = 0.5, .clip_value = 0.1, .ema = 0.9},
                                               {.autocast = kFloat16, .clip_norm = 0.5, .ema = 0.5},
                                               {.accumulate = 2}};
  for (const char* const mode : {"fuse", "full"}) {
    for (const train::StepOptions& given : all) {
      std::vector<double> weights[2], figures[2];
      for (const bool is_captured : {false, true}) {
        manual_seed(7);
        const auto model = small_model(kGpu);
        optim::AdamW adamw(model->parameters(), {.lr = 0.01});
        adamw.make_capturable();
        train::StepOptions options = given;
        options.compile = mode;
        options.cuda_graph = is_captured;
        int64_t calls = 0, skipped = 0;
        const auto loss = [&](const data::Batch& batch) {
          const auto count = [&](const std::vector<Tensor>&) {
            ++calls;  // in each run of the graph, but not in replays
            return Tensor();
          };
          graph::host_call("count", count, {});
          return small_loss(model)(batch);
        };
        train::Step step(model, adamw, loss, options);
        for (int i = 0; i < 10; ++i) {
          adamw.set_lr(0.01 / (i + 1));
          data::Batch batch = batch_of(8 - 2 * (i % 3 == 2), kGpu);
          const bool is_spoilt = i == 7 && given.autocast;
          if (is_spoilt) batch.fields[0] = batch[0] * 1e30;  // overflows in float16
          const train::Step::Result result = step.take_or_replay(batch);
          EXPECT_EQ(std::isnan(result.loss.item()), is_spoilt);
          if (!is_spoilt) figures[is_captured].push_back(result.loss.item());
          figures[is_captured].push_back(result.sums[0].second.item());
          if (result.grad_norm.defined() && !is_spoilt) {
            figures[is_captured].push_back(result.grad_norm.item());
          }
          if (is_spoilt) skipped = result.skipped.item<int64_t>();
        }
        EXPECT_EQ(skipped != 0, given.autocast.has_value());
        EXPECT_EQ(calls, given.accumulate * (is_captured ? 7 : 10));
        TensorMap state = model->state_dict();
        if (step.ema() != nullptr) state.merge(TensorMap(step.ema()->state_dict()));
        for (const auto& [name, tensor] : state) {
          const std::vector<double> values = numbers(tensor);
          weights[is_captured].insert(weights[is_captured].end(), values.begin(), values.end());
        }
      }
      EXPECT_EQ(weights[0], weights[1]) << mode;
      EXPECT_EQ(figures[0], figures[1]) << mode;
    }
  }
}

// Batches of more sizes than are traced.
TEST(TrainStep, ACompiledStepSaysWhyItRunsEagerly) {
  std::vector<double> losses[2];
  for (const bool is_compiled : {false, true}) {
    manual_seed(7);
    const auto model = std::make_shared<nn::Sequential>(nn::Linear(4, 16), nn::Linear(16, 4));
    optim::AdamW adamw(model->parameters(), {.lr = 0.01});
    train::StepOptions options;
    options.compile = is_compiled ? "full" : "off";
    train::Step step(model, adamw, small_loss(model), options);
    for (int i = 0; i < 12; ++i) {
      losses[is_compiled].push_back(step.take_or_replay(batch_of(2 + i)).loss.item());
    }
    EXPECT_EQ(step.why_eager().find("compile: 8 kinds of calls were traced") == 0, is_compiled);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(TrainStep, ClipsEachElementOfGradients) {
  constexpr double kMost = 1e-3;
  for (const bool scaled : {false, true}) {
    const auto model = plain_model(kCpu);
    optim::SGD sgd(model->parameters(), {.lr = 1});
    train::StepOptions options{.clip_value = kMost};
    if (scaled) options.autocast = kFloat16;
    train::Step step(model, sgd, small_loss(model), options);
    const std::vector<double> before = numbers(model->parameters()[0]);
    step.take(batch_of(8));
    const std::vector<double> after = numbers(model->parameters()[0]);
    double most = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      most = std::max(most, std::abs(after[i] - before[i]));
    }
    EXPECT_NEAR(most, kMost, 1e-6) << scaled;  // some are clipped, none is more
  }
}

TEST(TrainStep, SaysWhatIsWrongWithALossFunction) {
  const auto model = plain_model(kCpu);
  optim::SGD sgd(model->parameters(), {.lr = 0.1});
  const auto error = [&](const train::LossFunction& loss) {
    train::Step step(model, sgd, loss, {.accumulate = 2});
    return error_of([&] { step.take(batch_of(4)); });
  };
  EXPECT_EQ(error([](const data::Batch&) { return train::BatchLoss{}; }),
            "train: the loss function's result: got no tensor, expected a tensor of one element, "
            "the mean over the batch");
  EXPECT_EQ(error([&](const data::Batch& batch) { return train::BatchLoss{(*model)(batch[0])}; }),
            "train: the loss function's result: got shape [2, 4], expected a tensor of one "
            "element, the mean over the batch");
  int calls = 0;
  EXPECT_EQ(error([&](const data::Batch& batch) {
              train::BatchLoss result = small_loss(plain_model(kCpu))(batch);
              if (++calls == 2) result.sums.clear();
              return result;
            }),
            "train: sums of a piece of a batch: got 0, expected 1, as of the piece before");
}

TEST(TrainStep, RefusesAModelOnTwoDevices) {
  if (!cuda_is_available()) GTEST_SKIP() << "needs a GPU beside the CPU, of which there is none";
  nn::Sequential model(nn::Linear(4, 4), nn::Linear(4, 4));
  model.children()[1].second->to(kGpu);
  EXPECT_EQ(error_of([&] { train::device_of(model); }),
            "train: 1.weight is on cuda:0, expected cpu, as what comes before it");
}

}  // namespace
}  // namespace wick::testing
