#include "wick/core/anomaly.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "wick/core/apply.h"
#include "wick/core/core.h"
#include "wick/nn/lint.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor values(const std::vector<float>& list, Device device = kCpu) {
  return tensor(list).to(device);
}

TEST(DetectAnomaly, NamesTheOpThatMakesNaN) {
  for (const Device device : devices()) {
    const DetectAnomaly search;
    const Tensor x = values({1, -1, 4, -9}, device);
    EXPECT_EQ(error_of([&] { sqrt(x); }),
              "sqrt: NaN in result 0: got 2 in the 4 elements of float32 [4], though no input has "
              "any; expected none");
    EXPECT_EQ(error_of([&] { x.relu().sum(); }), "no error");
  }
}

TEST(DetectAnomaly, SaysThatNaNCameIn) {
  const DetectAnomaly search;
  const Tensor x = values({1, 2}), bad = values({kInf - kInf, 0});
  EXPECT_NE(error_of([&] { x + bad; }).find("as has input 1, float32 [2]"), std::string::npos);
}

// The product's gradient is 0 * inf, of factors that forward has no quarrel with.
TEST(DetectAnomaly, NamesTheOpWhoseBackwardMakesNaN) {
  const Tensor x = values({0, 4}).set_requires_grad();
  const auto step = [&] { (sqrt(x) * values({0, 1})).sum().backward(); };
  {
    const DetectAnomaly search;
    const std::string error = error_of(step);
    EXPECT_EQ(error.find("backward of sqrt: NaN in the gradient of input 0: got 1 in the 2 "), 0u)
        << error;
  }
  x.set_grad({});
  step();
  EXPECT_TRUE(isnan(x.grad()).any().item<bool>());
}

TEST(DetectAnomaly, LooksForInfinitiesWhereAsked) {
  const Tensor x = values({0, 1});
  {
    const DetectAnomaly search;
    EXPECT_EQ(error_of([&] { x.log(); }), "no error");
  }
  const DetectAnomaly search({.infinities = true});
  const std::string error = error_of([&] { x.log(); });
  EXPECT_NE(error.find("log: an infinity in result 0: got 1 in the 2 "), std::string::npos)
      << error;
  // Infinities that were given, or asked for.
  EXPECT_EQ(error_of([&] { values({-kInf, 0}).softmax(0); }), "no error");
  EXPECT_EQ(error_of([&] { x.masked_fill(x == zeros_like(x), -kInf).softmax(0); }), "no error");
  EXPECT_EQ(error_of([&] { full({3}, kInf); }), "no error");
}

// As a loader that runs on the training thread does with a batch that it is about to fill.
TEST(DetectAnomaly, PassesOverViewsOfMemoryYetToBeWritten) {
  const DetectAnomaly search;
  const Tensor x = values({kInf - kInf, 1});
  const Tensor first = x.slice(0, 0, 1);
  EXPECT_EQ(error_of([&] { x.slice(0, 0, 1).copy_(ones({1})); }), "no error");
  x.copy_(values({kInf - kInf, 1}).slice(0, 1, 2).expand({2}));
  EXPECT_EQ(first.item<float>(), 1);
  EXPECT_NE(error_of([] { values({kInf - kInf, 1}).slice(0, 0, 1) + ones({1}); }), "no error");
}

TEST(DetectAnomaly, SeesChangesInPlace) {
  const DetectAnomaly search;
  const Tensor x = values({0, 1});
  EXPECT_NE(error_of([&] { x.div_(zeros({2})); }).find("though no input has any"),
            std::string::npos);
}

TEST(DetectAnomaly, NamesTheModuleInForwardAndBackward) {
  for (const Device device : devices()) {
    nn::Sequential block(nn::Linear(3, 3), nn::ReLU());
    nn::Sequential net(nn::Linear(2, 3), std::move(block), nn::Linear(3, 1));
    net.to(device);
    const Tensor x = randn({4, 2}).to(device);
    const DetectAnomaly search;
    const Tensor loss = net(x).sum();
    EXPECT_EQ(error_of([&] { loss.backward(); }), "no error");

    const Tensor weight = net.parameters()[2];
    {
      const NoGrad no_grad;
      weight.fill_(std::numeric_limits<float>::quiet_NaN());
    }
    const std::string error = error_of([&] { net(x); });
    EXPECT_NE(error.find(" (in 1.0): NaN in result 0"), std::string::npos) << error;
    EXPECT_EQ(anomaly::module_path(), "");
  }
}

TEST(DetectAnomaly, NamesTheModuleOfABackward) {
  struct Root : nn::Module {
    Tensor forward(const Tensor& x) override { return sqrt(x); }
  };
  nn::Sequential net(nn::Flatten(), Root{});
  const Tensor x = zeros({2, 2}).set_requires_grad();
  const DetectAnomaly search;
  const Tensor y = net(x) * zeros({2, 2});
  const std::string error = error_of([&] { y.sum().backward(); });
  EXPECT_EQ(error.find("backward of sqrt (in 1): NaN"), 0u) << error;
}

TEST(DetectAnomaly, IsNoticedByLint) {
  nn::Linear net(2, 2);
  const auto step = [&](const Tensor& x) { net(x).sum().backward(); };
  const auto says_so = [&] {
    for (const nn::Lint& lint : nn::lint_training(net, kCpu, randn({4, 2}), step, {.rounds = 1})) {
      if (lint.message.find("searched for NaN") != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_FALSE(says_so());
  const DetectAnomaly search;
  EXPECT_TRUE(says_so());
}

TEST(DetectAnomaly, IsSetForAllThreads) {
  std::string found, own;
  set_detect_anomaly(true);
  std::thread([&] {
    found = error_of([] { values({-1}).sqrt(); });
    const DetectAnomaly search(
        {.check_nan = false, .infinities = true});  // this thread's comes first
    own = error_of([] { values({-1}).sqrt(); });
  }).join();
  set_detect_anomaly(false);
  EXPECT_EQ(found.find("sqrt: NaN"), 0u) << found;
  EXPECT_EQ(own, "no error");
  EXPECT_EQ(error_of([] { values({-1}).sqrt(); }), "no error");
}

struct FailsInBackward {
  static constexpr OpInfo info{.name = "fails_in_backward"};
  Tensor forward(Saved&, const Tensor& x) const { return x * 1; }
  Gradients backward(const Saved&, const Tensor&) const { detail::fail("inner: wrong"); }
};

TEST(DetectAnomaly, TellsWhereAnErrorOfBackwardBelongs) {
  struct Net : nn::Module {
    Tensor forward(const Tensor& x) override { return wick::apply(FailsInBackward{}, x); }
  };
  nn::Sequential net{Net()};
  const Tensor x = values({1}).set_requires_grad();
  set_detect_anomaly(true, {.check_nan = false});
  const Tensor y = net(x);
  const std::string error = error_of([&] { y.backward(); });
  set_detect_anomaly(false);
  EXPECT_EQ(error, "inner: wrong: in backward of fails_in_backward (in 0)");
  EXPECT_EQ(error_of([&] { net(x).backward(); }), "inner: wrong");
}

TEST(DetectAnomaly, EndsWithItsScope) {
  const Tensor x = values({-1});
  {
    const DetectAnomaly outer({.infinities = true});
    {
      const DetectAnomaly inner;
      EXPECT_EQ(error_of([] { values({0}).log(); }), "no error");
    }
    EXPECT_NE(error_of([] { values({0}).log(); }), "no error");
  }
  EXPECT_EQ(error_of([&] { x.sqrt(); }), "no error");
}

}  // namespace
}  // namespace wick::testing
