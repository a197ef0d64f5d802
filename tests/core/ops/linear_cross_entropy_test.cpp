#include "wick/core/ops/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include "wick/core/amp.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/softmax.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// Logits of about 64, of which 16-bit numbers would be 1/32 or 1/4 apart, and losses of about 3.
const Samples kLayers = {
    {uniform({9, 64}, 0.5, 1.5), uniform({7, 64}, 0.5, 1.5), uniform({7}), index({9}, 0, 7)}};
const CrossEntropyOptions kEach{.reduction = LossReduction::kNone};

WICK_OP_CASE(
    linear_cross_entropy, .samples = kLayers,
    .call = [](const Tensors& x) -> Tensors {
      return {linear_cross_entropy(x[0], x[1], x[3], x[2], kEach)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      return {cross_entropy(linear(x[0], x[1], x[2]), x[3], kEach)};
    },
    .tolerance = Tolerance::matmul());
WICK_OP_CASE(
    linear_cross_entropy_of_probabilities,
    .samples = {{kLayers[0][0], kLayers[0][1], uniform({9, 7}, 0, 1)}},
    .call = [](const Tensors& x) -> Tensors {
      return {linear_cross_entropy(x[0], x[1], x[2], {}, kEach)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      return {cross_entropy(linear(x[0], x[1]), x[2], kEach)};
    },
    .tolerance = Tolerance::matmul());

// Loss and gradients of `loss(x, weight, bias)`.
template <class Loss>
std::vector<Tensor> losses_and_gradients(Device device, const Loss& loss) {
  Generator generator(3);
  std::vector<Tensor> leaves;
  for (const Shape& shape : {Shape{9, 5}, Shape{7, 5}, Shape{7}}) {
    leaves.push_back(randn(shape, kFloat64, kCpu, &generator).to(device).requires_grad_());
  }
  const Tensor y = loss(leaves[0], leaves[1], leaves[2]);
  y.backward();
  return {y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

TEST(LinearCrossEntropy, IsTheLossOfALayer) {
  for (const Device device : devices()) {
    const Tensor classes = tensor<int64_t>({0, 6, 3, 3, 1, 2, 5, 4, 0}).to(device);
    const Tensor shares = softmax(randn({9, 7}, kFloat64), 1).to(device);
    for (const Tensor& target : {classes, shares}) {
      CrossEntropyOptions options;
      options.label_smoothing = 0.1;
      const auto fused = losses_and_gradients(device, [&](auto& x, auto& weight, auto& bias) {
        return linear_cross_entropy(x, weight, target, bias, options);
      });
      const auto apart = losses_and_gradients(device, [&](auto& x, auto& weight, auto& bias) {
        return cross_entropy(linear(x, weight, bias), target, options);
      });
      for (size_t i = 0; i < fused.size(); ++i) EXPECT_TRUE(allclose(fused[i], apart[i]));
    }
  }
}

TEST(LinearCrossEntropy, TakesOneDtypeUnlessAutocastChoosesIt) {
  const Tensor x = ones({2, 3}, kBFloat16), weight = ones({4, 3}), target = tensor<int64_t>({0, 3});
  EXPECT_EQ(linear_cross_entropy(x, weight.to(kBFloat16), target).dtype(), kBFloat16);
  EXPECT_EQ(error_of([&] { linear_cross_entropy(x, weight, target); }),
            "linear_cross_entropy: dtypes differ: got bfloat16 and float32");
  const amp::Autocast autocast(kCpu);
  EXPECT_EQ(linear_cross_entropy(x, weight, target).dtype(), kFloat32);
  EXPECT_EQ(linear_cross_entropy(x, weight.to(kBFloat16), target).dtype(), kFloat32);
}

}  // namespace
}  // namespace wick::testing
