#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "wick/core/core.h"
#include "wick/core/graph/compile.h"
#include "wick/nn/models/registry.h"
#include "wick/nn/nn.h"
#include "wick/optim/optim.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/harness/sanitized.h"

// Every model over 50 steps, eager beside compiled: the same bits.
namespace wick::testing {
namespace {

using Tensors = std::vector<Tensor>;
using ModulePtr = std::shared_ptr<nn::Module>;

constexpr int64_t kClasses = 5, kBatch = 4;

// Recurrent layers over the rows of an image.
struct Recurrent : nn::Module {
  nn::Handle<nn::LSTM> lstm =
      add("lstm", nn::LSTM(36, 12, {.num_layers = 2, .batch_first = true, .dropout = 0.2}));
  nn::Handle<nn::Linear> head = add("head", nn::Linear(12, kClasses));

  Tensor forward(const Tensor& x) override {
    const Tensor rows = x.permute({0, 2, 1, 3}).reshape({x.size(0), x.size(2), 36});
    return head(lstm(rows).select(1, -1));
  }
};

nn::ResNetOptions narrow() { return {.classes = kClasses, .width = 4, .small_input = true}; }

struct SmallModel {
  int64_t side;  // of images
  std::function<ModulePtr()> make;
};

// The models of nn/models, of few units, with dropout where they have an option for it.
const std::map<std::string, SmallModel>& small_models() {
  static const std::map<std::string, SmallModel> all = {
      {"mlp",
       {12,
        [] {
          return std::make_shared<nn::Mlp>(432, std::vector<int64_t>{24, 24}, 5);
        }}},
      {"lenet",
       {28,
        [] {
          return std::make_shared<nn::LeNet>(nn::ImageShape{3, 28, 28}, 5);
        }}},
      {"resnet20", {12, [] { return std::make_shared<nn::ResNet20>(kClasses); }}},
      {"resnet18", {12, [] { return std::make_shared<nn::ResNet>(nn::resnet18(narrow())); }}},
      {"resnet34", {12, [] { return std::make_shared<nn::ResNet>(nn::resnet34(narrow())); }}},
      {"resnet50", {12, [] { return std::make_shared<nn::ResNet>(nn::resnet50(narrow())); }}},
      {"vit",
       {12,
        [] {
          const nn::VitOptions options{
              .dim = 16, .depth = 2, .heads = 2, .mlp_dim = 24, .dropout = 0.1};
          return std::make_shared<nn::Vit>(nn::ImageShape{3, 12, 12}, kClasses, options);
        }}},
      {"lstm", {12, [] { return std::make_shared<Recurrent>(); }}}};
  return all;
}

// All that a step needs: float16, a scale that grows and backs off, clipping, averages.
struct CompiledTraining {
  CompiledTraining(const SmallModel& small, Device device) {
    manual_seed(11);
    model = small.make();
    model->to(device);
    optimizer.emplace(model->parameters(), optim::AdamWOptions{.lr = 1e-3});
    for (const auto& [name, buffer] : model->named_buffers()) buffers.push_back(buffer);
    rollback.emplace(buffers);
    ema.emplace(model->parameters(), 0.9);
    schedule.emplace(*optimizer, optim::OneCycleOptions{.max_lr = 5e-3, .total_steps = 60});
  }

  // batch: images, labels, a factor of the loss.
  Tensors step(const Tensors& batch) {
    optimizer->zero_grad();
    rollback->remember();
    Tensor loss;
    {
      const amp::Autocast autocast(batch[0].device(), kFloat16);
      loss = cross_entropy((*model)(batch[0]), batch[1]);
    }
    scaler.scale(loss * batch[2]).backward();
    const Tensor norm = scaler.step(*optimizer, 1.0);
    const Tensor skipped = scaler.found_inf(*optimizer);
    rollback->restore(skipped);
    ema->update(skipped);
    scaler.update();
    return {loss.detach(), norm, skipped};
  }

  ModulePtr model;
  std::optional<optim::AdamW> optimizer;
  Tensors buffers;
  std::optional<optim::Rollback> rollback;
  std::optional<optim::Ema> ema;
  std::optional<optim::OneCycleLR> schedule;
  amp::GradScaler scaler{{.init_scale = 256, .growth_interval = 6}};
};

struct StepResults {
  std::map<std::string, Tensor> tensors;
  int skipped = 0, grown = 0;
};

StepResults take_steps(const SmallModel& small, Device device,
                       std::optional<graph::CompileMode> mode) {
  CompiledTraining trained(small, device);
  graph::CompiledFunction compiled =
      graph::compile_step([&](const Tensors& batch) { return trained.step(batch); },
                          {.mode = mode.value_or(graph::CompileMode::kFull)});
  StepResults results;
  const int steps = kSanitized ? 8 : 50;
  for (int i = 0; i < steps; ++i) {
    Generator generator(static_cast<uint64_t>(i));
    const int64_t size = kBatch - i % 10 / 9;  // every tenth batch is smaller
    const Tensors batch{
        randn({size, 3, small.side, small.side}, kFloat32, kCpu, &generator).to(device),
        randint(0, kClasses, {size}, kInt64, kCpu, &generator).to(device),
        full({}, i % 7 == 5 ? 1e38 : 1.0).to(device)};
    const double scale = i == 0 ? 0 : trained.scaler.get_scale();
    const Tensors made = mode ? compiled(batch) : trained.step(batch);
    trained.schedule->step();
    for (size_t k = 0; k < made.size(); ++k) {
      results.tensors[concat("result ", k, " of step ", i)] = made[k].cpu();
    }
    results.skipped += made[2].item() != 0;
    results.grown += i > 0 && trained.scaler.get_scale() > scale;
  }
  const int kinds = kSanitized ? 1 : 2;
  EXPECT_EQ(compiled.num_graphs(), mode ? kinds : 0) << compiled.why_eager();
  for (const auto& [name, x] : trained.model->state_dict()) results.tensors[name] = x.cpu();
  for (const auto& [name, x] : trained.ema->state_dict()) results.tensors["ema " + name] = x.cpu();
  for (const auto& [name, x] : trained.optimizer->state_dict()) {
    results.tensors["optimizer " + name] = x.cpu();
  }
  return results;
}

class CompiledModel : public ::testing::TestWithParam<std::string> {
 protected:
  static void expect_same_bits(Device device, const std::vector<graph::CompileMode>& modes) {
    const SmallModel& small = small_models().at(GetParam());
    const StepResults eager = take_steps(small, device, {});
    EXPECT_GT(eager.skipped, 0);
    EXPECT_TRUE(kSanitized || eager.grown > 0);
    for (const graph::CompileMode mode : modes) {
      const StepResults got = take_steps(small, device, mode);
      ASSERT_EQ(got.tensors.size(), eager.tensors.size());
      for (const auto& [name, x] : eager.tensors) {
        EXPECT_TRUE(bit_equal(got.tensors.at(name), x)) << name;
      }
    }
  }
};

TEST_P(CompiledModel, HasTheBitsOfEagerSteps) {
  expect_same_bits(kCpu, {graph::CompileMode::kFuse, graph::CompileMode::kFull});
}
TEST_P(CompiledModel, HasThemOnAGpu) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  expect_same_bits(cuda_device(0), {graph::CompileMode::kFull});
}

std::vector<std::string> all_models() {
  std::vector<std::string> all;
  for (const auto& [name, small] : small_models()) all.push_back(name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Each, CompiledModel, ::testing::ValuesIn(all_models()),
                         [](const auto& test) { return test.param; });

TEST(CompiledModels, AreAllOfTheLibrary) {
  for (const std::string& name : nn::model_names()) EXPECT_TRUE(small_models().contains(name));
}

}  // namespace
}  // namespace wick::testing
