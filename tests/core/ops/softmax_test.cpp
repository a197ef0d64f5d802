#include "wick/core/ops/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// Softmax or its logarithm along `axis`, in double.
Arrays reference_softmax(const HostArray& x, int axis, bool logarithm) {
  HostArray y = x;
  const int64_t n = x.shape.rank() == 0 ? 1 : x.shape[axis];
  int64_t inner = 1;
  for (int a = axis + 1; a < x.shape.rank(); ++a) inner *= x.shape[a];
  for (int64_t i = 0; i < x.shape.numel(); ++i) {
    if (i / inner % n != 0) continue;
    const auto at = [&](int64_t k) -> size_t { return static_cast<size_t>(i + k * inner); };
    double max = x.values[at(0)], sum = 0;
    for (int64_t k = 1; k < n; ++k) max = std::max(max, x.values[at(k)]);
    for (int64_t k = 0; k < n; ++k) sum += std::exp(x.values[at(k)] - max);
    for (int64_t k = 0; k < n; ++k) {
      const double d = x.values[at(k)] - max;
      y.values[at(k)] = logarithm ? d - std::log(sum) : std::exp(d) / sum;
    }
  }
  return {y};
}

WICK_OP_CASE(
    softmax_last,
    .samples = {{normal({31, 33})},
                {normal({1})},
                {normal({})},
                {normal({0, 5})},
                {normal({2, 3, 127})},
                {normal({3, 1025})},
                {normal({2, 8200})},
                {normal({2, 40001})}},
    .call = [](const Tensors& x) -> Tensors { return {softmax(x[0], -1)}; },
    .reference = [](const Arrays& x) -> Arrays {
      return reference_softmax(x[0], std::max(0, x[0].shape.rank() - 1), false);
    },
    .composed = [](const Tensors& x) -> Tensors {
      const Tensor e = exp(x[0]);
      return {e / sum(e, {-1}, true)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    softmax_first,
    .samples = {{normal({33, 31})}, {normal({5, 1})}, {normal({7, 2, 65})}, {normal({9000, 3})}},
    .call = [](const Tensors& x) -> Tensors { return {softmax(x[0], 0)}; },
    .reference = [](const Arrays& x) { return reference_softmax(x[0], 0, false); },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    softmax_channels, .samples = {{normal({2, 5, 3, 4})}, {normal({2, 1, 3, 17})}},
    .call = [](const Tensors& x) -> Tensors { return {softmax(x[0], 1)}; },
    .reference = [](const Arrays& x) { return reference_softmax(x[0], 1, false); },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    log_softmax_last,
    .samples = {{normal({31, 33})},
                {normal({})},
                {normal({5, 0})},
                {normal({3, 1025})},
                {normal({2, 40001})}},
    .call = [](const Tensors& x) -> Tensors { return {log_softmax(x[0], -1)}; },
    .reference = [](const Arrays& x) -> Arrays {
      return reference_softmax(x[0], std::max(0, x[0].shape.rank() - 1), true);
    },
    .composed = [](const Tensors& x) -> Tensors { return {log(softmax(x[0], -1))}; },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    log_softmax_channels, .samples = {{normal({2, 5, 3, 4})}, {normal({2, 33, 17})}},
    .call = [](const Tensors& x) -> Tensors { return {log_softmax(x[0], 1)}; },
    .reference = [](const Arrays& x) { return reference_softmax(x[0], 1, true); },
    .tolerance = Tolerance::reduction(), .second_order = true);

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Softmax, IsStableForLargeValues) {
  const Tensor x = tensor<float>({1000, 1001, -1000, -kInf}, Shape{1, 4});
  const std::vector<float> y = softmax(x, 1).to_vector<float>();
  EXPECT_NEAR(y[0], 1 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(y[1], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 0);
  const std::vector<float> log_y = log_softmax(x, 1).to_vector<float>();
  EXPECT_NEAR(log_y[2], -2001.313, 1e-3);
  EXPECT_EQ(log_y[3], -kInf);
}

TEST(Softmax, ARowWithNaNOrOnlyMinusInfinityIsNaN) {
  const float nan = std::nanf("");
  for (const int64_t axis : {0, 1}) {
    const Tensor rows =
        tensor<float>({1, nan, 2, -kInf, -kInf, -kInf, 1, 2, kInf, 1, 2, 3}, Shape{4, 3});
    const Tensor x = axis == 1 ? rows : rows.t().contiguous();
    Tensor y = softmax(x, axis);
    if (axis == 0) y = y.t();
    const std::vector<float> values = y.to_vector<float>();
    for (size_t i = 0; i < 9; ++i) EXPECT_TRUE(std::isnan(values[i])) << axis << " " << i;
    for (size_t i = 9; i < 12; ++i) EXPECT_FALSE(std::isnan(values[i])) << axis << " " << i;
  }
}

TEST(Softmax, KeepsChannelsLast) {
  const Tensor x = ones({2, 3, 4, 5}).contiguous(MemoryFormat::kChannelsLast);
  EXPECT_TRUE(softmax(x, 1).is_contiguous(MemoryFormat::kChannelsLast));
}

TEST(Softmax, SaysWhatIsWrong) {
  const Tensor x = ones({2, 3}), whole = ones({2}, kInt64);
  EXPECT_EQ(error_of([&] { softmax(x, 2); }).find("softmax: "), 0u);
  EXPECT_EQ(error_of([&] { log_softmax(x, -3); }).find("log_softmax: "), 0u);
  const std::string wanted = "needs a floating dtype: got int64";
  EXPECT_EQ(error_of([&] { softmax(whole, 0); }), "softmax: " + wanted);
  EXPECT_EQ(error_of([&] { log_softmax(whole, 0); }), "log_softmax: " + wanted);
}

}  // namespace
}  // namespace wick::testing
