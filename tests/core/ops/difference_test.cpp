#include "wick/core/ops/difference.h"

#include <gtest/gtest.h>

#include "wick/core/ops/covariance.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using Numbers = std::vector<double>;
Numbers numbers_of(const Tensor& x) { return x.to(kFloat64).cpu().to_vector<double>(); }

WICK_OP_CASE(
    diff_twice, .samples = {{normal({3, 7})}, {normal({2, 3})}},
    .call = [](const Tensors& x) -> Tensors { return {diff(x[0], 2)}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = filled(with(in[0].shape, 1, in[0].shape[1] - 2));
      for_each_coordinate(y.shape, [&](const Shape& c) {
        at(y, c) = at(in[0], {c[0], c[1] + 2}) - 2 * at(in[0], {c[0], c[1] + 1}) + at(in[0], c);
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    trapezoid, .samples = {{normal({3, 5}), normal({5})}, {normal({2, 2}), normal({2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {trapezoid(x[0], x[1]), trapezoid(x[0], 0.5, 0)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      const int64_t rows = in[0].shape[0], n = in[0].shape[1];
      HostArray along = filled({rows}), across = filled({n});
      for_each_coordinate(in[0].shape, [&](const Shape& c) {
        const double y = at(in[0], c);
        if (c[1] > 0) {
          at(along, {c[0]}) +=
              (y + at(in[0], {c[0], c[1] - 1})) / 2 * (at(in[1], {c[1]}) - at(in[1], {c[1] - 1}));
        }
        if (c[0] > 0) at(across, {c[1]}) += (y + at(in[0], {c[0] - 1, c[1]})) / 4;
      });
      return {along, across};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    cumulative_trapezoid, .samples = {{normal({2, 6})}},
    .call = [](const Tensors& x) -> Tensors { return {cumulative_trapezoid(x[0], 2)}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = filled(with(in[0].shape, 1, in[0].shape[1] - 1));
      for_each_coordinate(y.shape, [&](const Shape& c) {
        at(y, c) =
            (c[1] > 0 ? at(y, {c[0], c[1] - 1}) : 0) + at(in[0], c) + at(in[0], {c[0], c[1] + 1});
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    covariance, .samples = {{normal({3, 6})}, {normal({1, 4})}},
    .call = [](const Tensors& x) -> Tensors { return {cov(x[0])}; },
    .reference = [](const Arrays& in) -> Arrays {
      const int64_t rows = in[0].shape[0], n = in[0].shape[1];
      HostArray c = filled(rows == 1 ? Shape{} : Shape{rows, rows});
      const auto mean = [&](int64_t row) {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += at(in[0], {row, i});
        return sum / static_cast<double>(n);
      };
      for (int64_t a = 0; a < rows; ++a) {
        for (int64_t b = 0; b < rows; ++b) {
          double sum = 0;
          for (int64_t i = 0; i < n; ++i) {
            sum += (at(in[0], {a, i}) - mean(a)) * (at(in[0], {b, i}) - mean(b));
          }
          c.values[static_cast<size_t>(a * rows + b)] = sum / static_cast<double>(n - 1);
        }
      }
      return {c};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

TEST(Difference, IsOfNeighbours) {
  for (const Device device : devices()) {
    const Tensor x = tensor<int64_t>({1, 4, 9, 16}).to(device);
    EXPECT_EQ(numbers_of(diff(x)), (Numbers{3, 5, 7}));
    EXPECT_EQ(numbers_of(diff(x, 2)), (Numbers{2, 2}));
    EXPECT_EQ(diff(x, 9).numel(), 0);
    const Tensor ends = tensor<int64_t>({0}).to(device);
    EXPECT_EQ(numbers_of(diff(x, 1, -1, ends, ends)), (Numbers{1, 3, 5, 7, -16}));
    EXPECT_EQ(numbers_of(diff(tensor<bool>({true, true, false}).to(device))), (Numbers{0, 1}));
  }
  EXPECT_EQ(error_of([] { diff(zeros({})); }),
            "diff: a number has no neighbours: expected 1 axis or more");
}

// Of a parabola differences in the middle are exact, and those of order 2 at the ends too.
TEST(Difference, GradientsOfAParabola) {
  for (const Device device : devices()) {
    const Tensor x = square(arange(5, kFloat64, device) * 0.5);
    const Numbers exact{0, 1, 2, 3, 4};
    EXPECT_EQ(numbers_of(gradient(x, {.spacing = {0.5}, .edge_order = 2})[0]), exact);
    EXPECT_EQ(numbers_of(gradient(x, {.spacing = {0.5}})[0]), (Numbers{0.5, 1, 2, 3, 3.5}));
    const Tensor plane = arange(6, kFloat64, device).reshape({2, 3});
    const std::vector<Tensor> both = gradient(plane, {.spacing = {2, 1}, .axes = {1, 0}});
    EXPECT_EQ(numbers_of(both[0]), Numbers(6, 0.5));
    EXPECT_EQ(numbers_of(both[1]), Numbers(6, 3));
  }
  EXPECT_EQ(error_of([] { gradient(zeros({2}), {.edge_order = 2}); }),
            "gradient: too few elements along axis 0: got 2, expected 3 or more");
  EXPECT_THROW(gradient(zeros({3}), {.spacing = {1, 2}}), Error);
}

TEST(Difference, IntegralsOfIntegersAndNoSamples) {
  EXPECT_EQ(trapezoid(tensor<int64_t>({1, 2, 3})).item(), 4);
  EXPECT_EQ(numbers_of(cumulative_trapezoid(tensor<float>({1, 2, 3}))), (Numbers{1.5, 4}));
  EXPECT_THROW(trapezoid(zeros({0})), Error);
  EXPECT_THROW(trapezoid(zeros({3}), zeros({2})), Error);
}

// torch.cov and torch.corrcoef of PyTorch 2.15 of the same.
TEST(Covariance, WeightsAndCorrections) {
  for (const Device device : devices()) {
    const Tensor x = tensor<double>({0, 1, 2, 2, 1, 0.5}, Shape{2, 3}).to(device);
    const Tensor counts = tensor<int64_t>({1, 2, 1}).to(device);
    const Tensor weights = tensor<double>({0.5, 1, 2}).to(device);
    const auto near = [](const Tensor& got, const Numbers& want) {
      const Numbers numbers = numbers_of(got);
      ASSERT_EQ(numbers.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(numbers[i], want[i], 1e-12);
    };
    near(cov(x, 0, counts), {0.5, -0.375, -0.375, 0.296875});
    near(cov(x, 0, counts, weights),
         {0.4444444444444444, -0.2962962962962963, -0.2962962962962963, 0.20987654320987653});
    near(cov(x, 1, {}, weights),
         {0.9285714285714286, -0.6428571428571428, -0.6428571428571428, 0.46428571428571425});
    near(corrcoef(x), {1, -0.9819805060619657, -0.9819805060619657, 1});
    near(cov(x.select(0, 0)), {1});
  }
  EXPECT_THROW(cov(zeros({2, 2, 2})), Error);
  EXPECT_THROW(cov(zeros({2, 3}), 1, tensor<int64_t>({1})), Error);
}

}  // namespace
}  // namespace wick::testing
