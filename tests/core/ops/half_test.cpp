// Results of 16 bits are computed in float32 and rounded once (docs/design/ops.md). These tests
// look where the ops' cases would not tell, since their tolerance is that of the largest element.
#include <gtest/gtest.h>

#include <algorithm>

#include "wick/core/amp.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/attention.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/difference.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/histogram.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/unfold.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/half_exceptions.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

double value_of(const Tensor& x) { return x.to(kFloat64).item(); }

// The gradient of sum(function(x) * weight) for a scalar x, without a graph and with one.
std::vector<double> gradients(const Function& function, const Tensor& x, const Tensor& weight) {
  std::vector<double> results;
  for (const bool create_graph : {false, true}) {
    const Tensor leaf = x.detach().set_requires_grad();
    results.push_back(
        value_of(grad({function(leaf)}, {leaf}, {weight}, false, create_graph)[0].detach()));
  }
  return results;
}

// A sum of two products that cancel but for what a rounded product loses: (1 + u)^2 - (1 + 2u),
// which is u^2, for the dtype's distance u from 1 to the next number.
TEST(Half, GradientsThatCancelAreRoundedAfterTheirSum) {
  for (const Device device : devices()) {
    for (const Dtype dtype : {kFloat16, kBFloat16}) {
      const double u = unit_in_last_place(dtype, 1);
      const auto of = [&](std::initializer_list<double> values, const Shape& shape) {
        return tensor<double>(values).reshape(shape).to(dtype).to(device);
      };
      const Tensor weight = of({1 + u, -1}, {2}), factor = of({1 + u, 1 + 2 * u}, {2});
      const Tensor one = of({1}, {});
      for (const double got : gradients([&](const Tensor& x) { return x * factor; }, one, weight)) {
        EXPECT_EQ(got, u * u) << dtype << " mul";
      }
      const Tensor divisor = of({1 + u, 1}, {2}), shares = of({1 + 2 * u, -1}, {2});
      const double quotients = (1 + 2 * u) / (1 + u) - 1;
      for (const double got :
           gradients([&](const Tensor& x) { return x / divisor; }, one, shares)) {
        EXPECT_NEAR(got, quotients, u * u) << dtype << " div";
      }
      const Tensor stack = factor.reshape({2, 1, 1});
      for (const double got : gradients([&](const Tensor& x) { return matmul(x, stack); },
                                        one.reshape({1, 1}), weight.reshape({2, 1, 1}))) {
        EXPECT_EQ(got, u * u) << dtype << " matmul";
      }
      const Function scaled = [&](const Tensor& x) { return add(zeros_like(factor), x, 1 + u); };
      for (const double got : gradients(scaled, one, factor - of({0, 2 + 3 * u}, {2}))) {
        EXPECT_NEAR(got, (1 + u) * value_of(sum((factor - of({0, 2 + 3 * u}, {2})).to(kFloat64))),
                    u * u / 4)
            << dtype << " add";
      }
    }
  }
}

// Sums whose first part loses, once rounded, what is left when the second has cancelled the rest.
TEST(Half, StepsOfAnOpAreNotRounded) {
  for (const Device device : devices()) {
    for (const Dtype dtype : {kFloat16, kBFloat16}) {
      SCOPED_TRACE(concat(device, " ", dtype));
      const double u = unit_in_last_place(dtype, 1);
      const auto of = [&](std::initializer_list<double> values, const Shape& shape) {
        return tensor<double>(values).reshape(shape).to(dtype).to(device);
      };
      const Tensor factor = of({1 + u}, {1, 1, 1}), bias = of({-1 - 2 * u}, {1});
      if (device.is_cpu()) {  // a GPU's library rounds before the bias
        EXPECT_EQ(value_of(conv_transpose1d(factor, factor, bias)), u * u);
        const Tensor square = factor.unsqueeze(0), cube = square.unsqueeze(0);
        EXPECT_EQ(value_of(conv_transpose2d(square, square, bias)), u * u);
        EXPECT_EQ(value_of(conv_transpose3d(cube, cube, bias)), u * u);
      }
      EXPECT_EQ(value_of(diff(of({u / 4, 1, 2}, {3}), 2)), u / 4);
      // The pixel in the middle is in four windows: at the end of the first and so on.
      const Tensor image = zeros({1, 3, 3}, dtype, device).set_requires_grad();
      unfold(image, {2, 2})
          .backward(of({0, 0, 0, -1, 0, 0, 0, 0, 0, u / 4, 0, 0, 1, 0, 0, 0}, {4, 4}));
      EXPECT_EQ(value_of(image.grad()[0][1][1]), u / 4);
      // Bins of width 1 + u / 2 and of 1.
      const Tensor edges = of({-u / 2, 1, 2}, {3});
      const Tensor density = histogram(of({0.5}, {1}), edges, {.density = true}).counts;
      EXPECT_EQ(value_of(density[0]), value_of(of({1 / (1 + u / 2)}, {})));
    }
  }
}

TEST(Half, CastsOfAutocastComeFirst) {
  const Tensor x = full({4}, 1.5, kBFloat16), y = ones({4}, kBFloat16);
  EXPECT_EQ(mse_loss(x, y).dtype(), kBFloat16);
  const amp::Autocast autocast(kCpu);
  EXPECT_EQ(mse_loss(x, y).dtype(), kFloat32);
  EXPECT_EQ(binary_cross_entropy_with_logits(x, y).dtype(), kFloat32);
  EXPECT_EQ(
      scaled_dot_product_attention(x.reshape({1, 1, 4}), x.reshape({1, 1, 4}), x.reshape({1, 1, 4}))
          .dtype(),
      kBFloat16);
}

TEST(Half, AttentionIsOfTheDtypeOfItsOperands) {
  const Tensor x = ones({1, 2, 4}, kBFloat16);
  EXPECT_EQ(scaled_dot_product_attention(x, x, x, zeros({2, 2})).dtype(), kBFloat16);
}

TEST(Half, ComparesWithATolerance) {
  // 1e-8 is 0 in float16, and so is the tolerance of numbers below 2^-14 / 1e-5.
  const Tensor x = full({1}, 0x1p-24, kFloat16), zero = zeros({1}, kFloat16);
  EXPECT_TRUE(allclose(x, zero, 0, 1e-7));
  EXPECT_FALSE(allclose(x, zero, 0, 5e-8));
}

TEST(Half, ExceptionsAreOfCasesThatExist) {
  for (const HalfException& exception : kHalfExceptions) {
    const auto& cases = op_cases();
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const OpCase& op_case) {
      return op_case.name == exception.op_case;
    })) << exception.op_case;
    EXPECT_GT(exception.units, kHalfUnits);
  }
}

}  // namespace
}  // namespace wick::testing
