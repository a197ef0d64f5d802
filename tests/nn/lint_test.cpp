#include "wick/nn/lint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/optim/sgd.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using Found = std::map<std::string, nn::Lint>;

// What is found in training steps of `net` on `input`; `extra` is done in each of them.
template <class Extra>
Found lint(nn::Module& net, const Tensor& input, Device device, const Extra& extra) {
  net.to(device);
  Found found;
  const auto step = [&](const Tensor& x) {
    net.zero_grad();
    net(x.to(device)).sum().backward();
    extra(x);
  };
  for (const nn::Lint& lint : nn::lint_training(net, device, input, step, {.rounds = 2})) {
    found[lint.rule] = lint;
  }
  found.erase("debugging");
  found.erase("small-batch");
  return found;
}
Found lint(nn::Module& net, const Tensor& input, Device device = kCpu) {
  return lint(net, input, device, [](const Tensor&) {});
}

TEST(Lint, FindsBiasesThatBatchNormTakesAway) {
  for (const Device device : devices()) {
    nn::Sequential net(nn::Conv2d(3, 4, 3), nn::BatchNorm2d(4), nn::ReLU(), nn::Conv2d(4, 2, 1),
                       nn::Conv2d(2, 4, 1, {.bias = false}), nn::BatchNorm2d(4), nn::Flatten(),
                       nn::Linear(144, 5), nn::BatchNorm1d(5), nn::Linear(5, 2));
    const Tensor x = randn({4, 3, 8, 8});
    const Tensor bias = dynamic_cast<nn::Conv2d&>(*net.children()[0].second).bias;
    const Found found = lint(net, device.is_cpu() ? x : x.pin_memory(), device);
    ASSERT_EQ(found.size(), 1u);
    const nn::Lint& lint = found.at("bias-before-norm");
    EXPECT_NE(lint.message.find("0 and 1 more"), std::string::npos) << lint.message;
    // The biases are back.
    EXPECT_TRUE(dynamic_cast<nn::Conv2d&>(*net.children()[0].second).bias.is_same(bias));
  }
}

TEST(Lint, PutsTheBiasOfALayerOfTwoNamesBack) {
  const nn::Handle<nn::Linear> layer(std::make_shared<nn::Linear>(4, 4));
  const Tensor bias = layer->bias;
  nn::Sequential net;
  for (int i = 0; i < 2; ++i) {
    net.push_back(layer);
    net.push_back(nn::BatchNorm1d(4));
  }
  const Found found = lint(net, randn({16, 4}));
  ASSERT_TRUE(found.contains("bias-before-norm"));
  EXPECT_EQ(found.at("bias-before-norm").message.find("more"), std::string::npos);
  ASSERT_TRUE(layer->bias.defined());
  EXPECT_TRUE(layer->bias.is_same(bias));
}

TEST(Lint, SaysNothingOfGoodHabits) {
  nn::Sequential net(nn::Linear(6, 8), nn::LayerNorm({8}), nn::ReLU(), nn::Linear(8, 2));
  EXPECT_TRUE(lint(net, randn({16, 6})).empty());
}

TEST(Lint, FindsConvolutionsWithoutANorm) {
  const auto seen_in = [](nn::Module& net) {
    const Found found = lint(net, randn({4, 3, 8, 8}));
    return found.contains("no-norm") ? found.at("no-norm").message.substr(0, 14) : "";
  };
  nn::Sequential bare(nn::Conv2d(3, 4, 3), nn::ReLU(), nn::Conv2d(4, 4, 1), nn::Conv2d(4, 4, 3),
                      nn::MaxPool2d(2), nn::Flatten(), nn::Linear(16, 2));
  EXPECT_EQ(seen_in(bare), "0 and 1 more: ");
  nn::Sequential normed(nn::Conv2d(3, 4, 3, {.bias = false}), nn::GroupNorm(2, 4), nn::ReLU(),
                        nn::Conv2d(4, 4, 3), nn::ReLU(), nn::Flatten(), nn::LayerNorm({64}),
                        nn::Linear(64, 2));
  EXPECT_EQ(seen_in(normed), "");
}

TEST(Lint, FindsGradientsThatAreZeroed) {
  for (const Device device : devices()) {
    nn::Sequential net(nn::Linear(6, 8), nn::ReLU(), nn::Linear(8, 2));
    net.to(device);
    optim::SGD optimizer(net.parameters(), {.lr = 0.01});
    const Tensor x = randn({16, 6});
    for (const bool set_to_none : {true, false}) {
      const auto step = [&](const Tensor& input) {
        optimizer.zero_grad(set_to_none);
        net(input.to(device)).sum().backward();
        optimizer.step();
      };
      int seen = 0;
      for (const nn::Lint& lint : nn::lint_training(net, device, x, step, {.rounds = 2})) {
        if (lint.rule != "zeroed-gradients") continue;
        ++seen;
        EXPECT_GT(lint.cost, 0);
        EXPECT_NE(lint.message.find("zero_grad()"), std::string::npos);
      }
      EXPECT_EQ(seen, set_to_none ? 0 : 1);
    }
  }
}

TEST(Lint, FindsInputFarFromNormal) {
  nn::Sequential net(nn::Flatten(), nn::Linear(75, 2));
  Tensor x = randn({16, 3, 5, 5});
  EXPECT_TRUE(lint(net, x).empty());
  x.select(1, 1).mul_(60).add_(120);  // as bytes are
  const Found found = lint(net, x);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found.at("unnormalized-input").message.find("channel 1"), std::string::npos);
}

TEST(Lint, FindsWaitsAndPageableCopies) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  nn::Sequential net(nn::Linear(6, 2));
  const Tensor x = randn({16, 6});
  const Found pageable = lint(net, x, cuda_device(0));
  ASSERT_EQ(pageable.size(), 1u);
  EXPECT_TRUE(pageable.contains("pageable-copy"));
  const auto read = [&](const Tensor&) { net.parameters()[0].sum().item(); };
  const Found waiting = lint(net, x.pin_memory(), cuda_device(0), read);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_NE(waiting.at("synchronization").message.find("1 time:"), std::string::npos);
  EXPECT_GT(waiting.at("synchronization").cost, 0);
  EXPECT_LT(waiting.at("synchronization").cost, 0.5);  // of host and device one is busy half of it
}

TEST(Lint, FindsABatchFarBelowTheFastest) {
  nn::Sequential net(nn::Linear(4, 2));
  const auto step = [&](const Tensor& x) {  // a sample costs almost nothing, a step 20 ms
    net(x).sum().backward();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  std::string batch;
  for (const nn::Lint& lint : nn::lint_training(net, kCpu, randn({4, 4}), step, {.rounds = 3})) {
    if (lint.rule != "small-batch") continue;
    batch = lint.message;
    EXPECT_GT(lint.cost, 0.2);
  }
  EXPECT_NE(batch.find("a batch of "), std::string::npos);
  EXPECT_NE(batch.find("than one of 4;"), std::string::npos) << batch;
}

// What is found whose message has `text`, in small steps of `net` that take 20 ms more where
// `is_slow()`: what is without these then costs most of a step.
template <class IsSlow>
std::vector<nn::Lint> found_in(nn::Module& net, const char* text, const IsSlow& is_slow) {
  const auto step = [&](const Tensor& x) {
    net.zero_grad();
    net(x).sum().backward();
    if (is_slow()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  std::vector<nn::Lint> found;
  for (const nn::Lint& lint :
       nn::lint_training(net, kCpu, randn({16, 4}), step, {.rounds = 5, .most_batch = 16})) {
    if (lint.message.find(text) != std::string::npos) found.push_back(lint);
  }
  return found;
}

TEST(Lint, MeasuresBiases) {
  nn::Sequential net(nn::Linear(4, 4), nn::BatchNorm1d(4));
  const auto& bias = dynamic_cast<nn::Linear&>(*net.children()[0].second).bias;
  const auto found = found_in(net, "0: batch norm", [&] { return bias.defined(); });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rule, "bias-before-norm");
  EXPECT_GT(found[0].cost, 0.5);
}

TEST(Lint, MeasuresASearchForNan) {
  nn::Sequential net(nn::Linear(4, 2));
  const auto is_on = [] { return anomaly::search() != nullptr; };
  EXPECT_TRUE(found_in(net, "DetectAnomaly", is_on).empty());
  const DetectAnomaly search;
  const std::vector<nn::Lint> found = found_in(net, "DetectAnomaly", is_on);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rule, "debugging");
  EXPECT_GT(found[0].cost, 0.5);
  EXPECT_EQ(anomaly::search(), &search.options());  // on again
}

TEST(Lint, MeasuresTheRestWithoutASearch) {
  nn::Sequential net(nn::Linear(4, 4), nn::BatchNorm1d(4));
  const DetectAnomaly search;
  int searched = 0, all = 0;
  const auto step = [&](const Tensor& x) {
    ++all;
    if (anomaly::search() != nullptr) ++searched;
    net(x).sum().backward();
  };
  nn::lint_training(net, kCpu, randn({8, 4}), step, {.rounds = 2});
  EXPECT_EQ(searched, 2);
  EXPECT_GT(all, 8);
}

TEST(Lint, MeasuresRecordsOfMemory) {
  nn::Sequential net(nn::Linear(4, 2));
  const auto is_on = [] { return memory_history_limit(kCpu) > 0; };
  EXPECT_TRUE(found_in(net, "history", is_on).empty());
  record_memory_history(kCpu, 100);
  const std::vector<nn::Lint> found = found_in(net, "history", is_on);
  EXPECT_FALSE(memory_history(kCpu).empty());  // on again
  EXPECT_EQ(memory_history_limit(kCpu), 100u);
  record_memory_history(kCpu, 0);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rule, "debugging");
  EXPECT_GT(found[0].cost, 0.5);
}

TEST(Lint, PutsBackWhatItChangedForAStepThatThrows) {
  nn::Sequential net(nn::Linear(4, 4), nn::BatchNorm1d(4));
  auto& bias = dynamic_cast<nn::Linear&>(*net.children()[0].second).bias;
  const Tensor before = bias;
  const auto error_if = [&](const auto& fails) {
    return error_of([&] {
      nn::lint_training(net, kCpu, randn({8, 4}), [&](const Tensor& x) {
        WICK_CHECK(!fails(), "step: no more");
        net(x).sum().backward();
      });
    });
  };
  EXPECT_EQ(error_if([&] { return !bias.defined(); }), "step: no more");
  EXPECT_TRUE(bias.is_same(before));
  record_memory_history(kCpu, 100);
  EXPECT_EQ(error_if([&] { return memory_history_limit(kCpu) == 0; }), "step: no more");
  EXPECT_EQ(memory_history_limit(kCpu), 100u);
  record_memory_history(kCpu, 0);
}

TEST(Lint, RefusesAnEmptyBatch) {
  nn::Sequential net(nn::Linear(4, 2));
  const auto step = [](const Tensor&) {};
  EXPECT_NE(error_of([&] { nn::lint_training(net, kCpu, Tensor(), step); }).find("wrong input"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              nn::lint_training(net, kCpu, empty({0, 4}), step);
            }).find("wrong input"),
            std::string::npos);
}

}  // namespace
}  // namespace wick::testing
