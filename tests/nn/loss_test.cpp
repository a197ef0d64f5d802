#include "wick/nn/loss.h"

#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using namespace nn;

TEST(LossModules, ComputeTheirFunctions) {
  manual_seed(3);
  const Tensor x = randn({4, 3}), y = randn({4, 3}), share = rand({4, 3});
  const Tensor classes = tensor<int64_t>({0, 2, 1, 2}), weight = tensor({1.f, 2.f, 0.5f});
  const auto sum = LossReduction::kSum;
  const auto expect = [](Loss&& loss, const Tensor& input, const Tensor& target,
                         const Tensor& want) {
    EXPECT_TRUE(equal(loss(input, target), want)) << loss.description();
  };
  expect(CrossEntropyLoss(), x, classes, cross_entropy(x, classes));
  const CrossEntropyOptions options{.weight = weight, .label_smoothing = 0.1, .reduction = sum};
  expect(CrossEntropyLoss(options), x, classes, cross_entropy(x, classes, options));
  expect(NLLLoss({.weight = weight, .ignore_index = 2, .reduction = sum}), x, classes,
         nll_loss(x, classes, weight, 2, sum));
  expect(MSELoss(), x, y, mse_loss(x, y));
  expect(MSELoss(sum), x, y, mse_loss(x, y, sum));
  expect(L1Loss(sum), x, y, l1_loss(x, y, sum));
  expect(SmoothL1Loss(0.5, sum), x, y, smooth_l1_loss(x, y, 0.5, sum));
  expect(HuberLoss(0.5, sum), x, y, huber_loss(x, y, 0.5, sum));
  expect(BCELoss(weight, sum), share, share, binary_cross_entropy(share, share, weight, sum));
  expect(BCEWithLogitsLoss(weight, weight * 2, sum), x, share,
         binary_cross_entropy_with_logits(x, share, weight, weight * 2, sum));
  expect(KLDivLoss(true, sum), x, y, kl_div(x, y, true, sum));
}

TEST(LossModules, MoveTheirWeights) {
  CrossEntropyLoss loss({.weight = tensor({1.f, 2.f})});
  loss.to(kFloat64);
  EXPECT_EQ(loss(ones({1, 2}, kFloat64), zeros(1, kInt64)).dtype(), kFloat64);
  EXPECT_EQ(loss.state_dict().at("weight").dtype(), kFloat64);
  EXPECT_TRUE(MSELoss().state_dict().empty());
}

TEST(LossModules, AreChildrenLikeOthers) {
  struct Net : Module {
    Handle<Linear> fc = add("fc", Linear(3, 2));
    Handle<CrossEntropyLoss> loss = add("loss", CrossEntropyLoss());
  };
  Net net;
  EXPECT_EQ(net.loss(net.fc(ones({1, 3})), zeros(1, kInt64)).shape(), Shape());
  EXPECT_EQ(error_of([&] { net.loss->call(ones({1})); }),
            "CrossEntropyLoss: there is no forward of one tensor: got one, expected a class that "
            "overrides forward(const Tensor&), or a call of another forward");
}

TEST(Dropout2d, DropsWholeChannelsInTrainingAlone) {
  Dropout2d layer(0.5);
  manual_seed(1);
  const Tensor y = layer(ones({8, 8, 3, 3}));
  EXPECT_TRUE(equal(y.amax({2, 3}), y.amin({2, 3})));
  EXPECT_GT((y == 0).sum().item(), 0);
  EXPECT_GT((y == 2).sum().item(), 0);
  layer.eval();
  EXPECT_TRUE(equal(layer(ones({1, 2, 3, 3})), ones({1, 2, 3, 3})));
  EXPECT_EQ(layer.description(), "Dropout2d(p=0.5)");
  EXPECT_EQ(error_of([] { Dropout2d(1.5); }), "Dropout2d: p: got 1.5, expected a value in [0, 1]");
}

TEST(LogSoftmax, IsTheFunction) {
  const Tensor x = randn({2, 3});
  EXPECT_TRUE(equal(LogSoftmax(1)(x), log_softmax(x, 1)));
}

}  // namespace
}  // namespace wick::testing
