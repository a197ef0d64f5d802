#include "wick/core/ops/activation.h"

#include <gtest/gtest.h>

#include "wick/core/ops/elementwise.h"
#include "wick/tests/core/ops/elementwise_cases.h"

namespace wick::testing {
namespace {

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double hardsigmoid_of(double x) { return std::fmin(std::fmax(x + 3, 0), 6) / 6; }

WICK_OP_CASE(relu, .samples = unary_samples(-2, 2, {0}), .call = call_of(relu),
             .reference = elementwise([](double x) { return x > 0 ? x : 0; }),
             .second_order = true);
WICK_OP_CASE(
    gelu, .samples = unary_samples(-4, 4),
    .call = [](const Tensors& x) -> Tensors { return {gelu(x[0])}; },
    .reference = elementwise([](double x) { return x * normal_cdf(x); }), .second_order = true);
WICK_OP_CASE(
    gelu_tanh, .samples = unary_samples(-4, 4),
    .call = [](const Tensors& x) -> Tensors { return {gelu(x[0], GeluApproximation::kTanh)}; },
    .reference = elementwise(gelu_tanh_of), .second_order = true);
WICK_OP_CASE(relu6, .samples = unary_samples(-2, 8, {0, 6}), .call = call_of(relu6),
             .reference = elementwise([](double x) { return std::fmin(std::fmax(x, 0), 6); }),
             .second_order = true);
WICK_OP_CASE(mish, .samples = unary_samples(-6, 6), .call = call_of(mish),
             .reference = elementwise([](double x) {
               return x * std::tanh(std::log1p(std::exp(x)));
             }),
             .second_order = true);
WICK_OP_CASE(softsign, .samples = unary_samples(-4, 4), .call = call_of(softsign),
             .reference = elementwise([](double x) { return x / (1 + std::fabs(x)); }),
             .second_order = true);
WICK_OP_CASE(
    prelu,
    .samples = {{normal({33}), normal({1})},
                {normal({2, 3, 5}), normal({3})},
                {normal({3, 31, 2, 2}), normal({31})},
                {normal({4, 2}), normal({1})}},
    .call = [](const Tensors& x) -> Tensors { return {prelu(x[0], x[1])}; },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      const auto channels = static_cast<size_t>(x[1].shape.numel());
      size_t inner = 1;
      for (int axis = 2; axis < y.shape.rank(); ++axis) inner *= static_cast<size_t>(y.shape[axis]);
      for (size_t i = 0; i < y.values.size(); ++i) {
        if (!(y.values[i] > 0)) y.values[i] *= x[1].values[i / inner % channels];
      }
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    glu, .samples = {{normal({6})}, {normal({3, 34})}, {normal({2, 2, 4})}, {normal({3, 0})}},
    .call = [](const Tensors& x) -> Tensors { return {glu(x[0])}; },
    .reference = [](const Arrays& x) -> Arrays {
      Shape shape = x[0].shape;
      const auto n = static_cast<size_t>(shape[shape.rank() - 1] /= 2);
      HostArray y = x[0];
      y.shape = shape;
      y.values.clear();
      for (size_t i = 0; i < static_cast<size_t>(shape.numel()); ++i) {
        const size_t at = i / n * 2 * n + i % n;
        y.values.push_back(x[0].values[at] / (1 + std::exp(-x[0].values[at + n])));
      }
      return {y};
    },
    .second_order = true);
WICK_OP_CASE(silu, .samples = unary_samples(-4, 4), .call = call_of(silu),
             .reference = elementwise([](double x) { return x / (1 + std::exp(-x)); }),
             .second_order = true);
WICK_OP_CASE(hardswish, .samples = unary_samples(-5, 5, {-3, 3}), .call = call_of(hardswish),
             .reference = elementwise([](double x) { return x * hardsigmoid_of(x); }),
             .second_order = true);
WICK_OP_CASE(hardsigmoid, .samples = unary_samples(-5, 5, {-3, 3}), .call = call_of(hardsigmoid),
             .reference = elementwise(hardsigmoid_of), .second_order = true);
WICK_OP_CASE(
    softplus, .samples = unary_samples(-3, 3, {1.25}),
    .call = [](const Tensors& x) -> Tensors { return {softplus(x[0], 2, 2.5)}; },
    .reference = elementwise([](double x) {
      return 2 * x > 2.5 ? x : std::log1p(std::exp(2 * x)) / 2;
    }),
    .second_order = true);
WICK_OP_CASE(
    leaky_relu, .samples = unary_samples(-2, 2, {0}),
    .call = [](const Tensors& x) -> Tensors { return {leaky_relu(x[0], 0.02)}; },
    .reference = elementwise([](double x) { return x > 0 ? x : 0.02 * x; }), .second_order = true);
WICK_OP_CASE(
    elu, .samples = unary_samples(-3, 3, {0}),
    .call = [](const Tensors& x) -> Tensors { return {elu(x[0], 0.7)}; },
    .reference = elementwise([](double x) { return x > 0 ? x : 0.7 * std::expm1(x); }),
    .second_order = true);
WICK_OP_CASE(
    clamp, .samples = unary_samples(-2, 2, {-0.5, 0.8}),
    .call = [](const Tensors& x) -> Tensors {
      return {clamp(x[0], -0.5, 0.8), clamp(x[0], -0.5), clamp(x[0], {}, 0.8)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      Arrays y = {x[0], x[0], x[0]};
      for (double& v : y[0].values) v = std::fmin(std::fmax(v, -0.5), 0.8);
      for (double& v : y[1].values) v = std::fmax(v, -0.5);
      for (double& v : y[2].values) v = std::fmin(v, 0.8);
      return y;
    },
    .second_order = true);

WICK_OP_CASE(
    relu_in_place, .samples = unary_samples(-2, 2, {0}),
    .call = [](const Tensors& x) -> Tensors { return {(x[0] * 1.0).relu_()}; },
    .reference = elementwise([](double x) { return x > 0 ? x : 0; }), .second_order = true);
WICK_OP_CASE(
    clamp_in_place, .samples = unary_samples(-2, 2, {-0.5, 0.8}),
    .call = [](const Tensors& x) -> Tensors { return {(x[0] * 1.0).clamp_(-0.5, 0.8)}; },
    .reference = elementwise([](double x) { return std::fmin(std::fmax(x, -0.5), 0.8); }),
    .second_order = true);

// Value and gradient of `function` at x, in float32, by the kernel and by the ops of create_graph.
void expect_at(const std::function<Tensor(const Tensor&)>& function, float x, float value,
               float slope) {
  for (const bool create_graph : {false, true}) {
    const Tensor at = tensor<float>({x});
    at.set_requires_grad();
    const Tensor y = function(at);
    const Tensor dx = grad({y}, {at}, {ones({1})}, false, create_graph)[0];
    const float got[] = {y.item<float>(), dx.item<float>()}, want[] = {value, slope};
    for (int i = 0; i < 2; ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << "at " << x << ": " << got[i];
      } else {
        EXPECT_FLOAT_EQ(got[i], want[i]) << "at " << x;
      }
    }
  }
}

// What PyTorch gives.
TEST(ActivationCorners, KinksInfinitiesAndNan) {
  const auto relu_of = [](const Tensor& x) { return relu(x); };
  expect_at(relu_of, 0, 0, 0);
  expect_at(relu_of, INFINITY, INFINITY, 1);
  expect_at(relu_of, NAN, NAN, 1);
  const auto clamp_of = [](const Tensor& x) { return clamp(x, -1, 2.5); };
  expect_at(clamp_of, -1, -1, 0);
  expect_at(clamp_of, 2.5, 2.5, 0);
  expect_at(clamp_of, 3, 2.5, 0);
  expect_at(clamp_of, NAN, NAN, 0);
  const auto leaky = [](const Tensor& x) { return leaky_relu(x, 0.5); };
  expect_at(leaky, 0, 0, 0.5f);
  expect_at(leaky, -INFINITY, -INFINITY, 0.5f);
  const auto elu_of = [](const Tensor& x) { return elu(x, 2); };
  expect_at(elu_of, 0, 0, 2);
  expect_at(elu_of, 200, 200, 1);
  expect_at(elu_of, -INFINITY, -2, 0);
  const auto hardswish_of = [](const Tensor& x) { return hardswish(x); };
  expect_at(hardswish_of, -3, 0, 0);
  expect_at(hardswish_of, 3, 3, 1);
  const auto relu6_of = [](const Tensor& x) { return relu6(x); };
  expect_at(relu6_of, 0, 0, 0);
  expect_at(relu6_of, 6, 6, 0);
  expect_at(relu6_of, NAN, NAN, 1);
  const auto mish_of = [](const Tensor& x) { return mish(x); };
  expect_at(mish_of, 200, 200, 1);
  expect_at(mish_of, -200, 0, 0);
  EXPECT_EQ(mish(tensor<float>({INFINITY})).item(), INFINITY);
  const auto prelu_of = [](const Tensor& x) { return prelu(x, full({1}, 0.5)); };
  expect_at(prelu_of, 0, 0, 0.5f);
  const auto softplus_of = [](const Tensor& x) { return softplus(x); };
  expect_at(softplus_of, 200, 200, 1);
  expect_at(softplus_of, -200, 0, 0);
  const auto gelu_of = [](const Tensor& x) { return gelu(x); };
  expect_at(gelu_of, 60, 60, 1);
  expect_at(gelu_of, -60, 0, 0);
  const auto sigmoid_of = [](const Tensor& x) { return sigmoid(x); };
  expect_at(sigmoid_of, 200, 1, 0);
  expect_at(sigmoid_of, -200, 0, 0);
}

TEST(ActivationDtypes, IntegersStayWhereTheyCan) {
  EXPECT_EQ(relu(tensor<int64_t>({-3, 4})).to_vector<int64_t>(), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(clamp(tensor<int64_t>({-3, 4}), -1, 2).to_vector<int64_t>(),
            (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(clamp(tensor<int64_t>({-3, 4}), -0.5).to_vector<float>(),
            (std::vector<float>{-0.5f, 4}));
  EXPECT_EQ(gelu(tensor<int64_t>({0})).dtype(), kFloat32);
}

}  // namespace
}  // namespace wick::testing
