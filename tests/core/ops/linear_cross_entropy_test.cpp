#include "wick/core/ops/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/softmax.h"
#include "wick/tests/harness/devices.h"

namespace wick::testing {
namespace {

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

}  // namespace
}  // namespace wick::testing
