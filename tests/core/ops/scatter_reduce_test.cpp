#include "wick/core/ops/scatter_reduce.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using Numbers = std::vector<double>;
using Integers = std::vector<int64_t>;

int64_t scattered_index(const HostArray& x, const Shape& c) {
  return static_cast<int64_t>(at(x, c));
}

// Reduces what comes to each place of axis 1, one after the other.
std::function<Arrays(const Arrays&)> scattered(double (*combine)(double, double), bool include_self,
                                               bool divides = false) {
  return [=](const Arrays& in) -> Arrays {
    HostArray y = in[0], count = filled(y.shape, include_self ? 1 : 0);
    for_each_coordinate(in[1].shape, [&](Shape c) {
      const double value = at(in[2], c);
      c[1] = scattered_index(in[1], c);
      at(y, c) = at(count, c) == 0 ? value : combine(at(y, c), value);
      at(count, c) += 1;
    });
    for (size_t i = 0; divides && i < y.values.size(); ++i) {
      y.values[i] /= std::max(count.values[i], 1.0);
    }
    return {y};
  };
}

TensorFunction call_with(ScatterReduction reduction, bool include_self) {
  return [=](const Tensors& x) -> Tensors {
    return {scatter_reduce(x[0], 1, x[1], x[2], reduction, include_self)};
  };
}

// No two elements are equal: at ties the gradient is no limit of differences.
Sample scattered_places(const Shape& x, const Shape& index_shape, int64_t n) {
  Input source = distinct(index_shape);
  return {uniform(x, 0.51, 0.57), index(index_shape, 0, n), source};
}
const Samples kScatteredPlaces = {
    scattered_places({3, 4}, {3, 7}, 4), scattered_places({2, 9}, {2, 5}, 9),
    scattered_places({2, 3, 2}, {2, 5, 2}, 3), scattered_places({2, 3}, {2, 0}, 3)};
Sample scattered_factors(const Shape& x, const Shape& index_shape, int64_t n) {
  return {uniform(x, 0.5, 1.5), index(index_shape, 0, n), uniform(index_shape, 0.5, 1.5)};
}
const Samples kScatteredFactors = {scattered_factors({3, 4}, {3, 7}, 4),
                                   scattered_factors({2, 9}, {2, 5}, 9),
                                   scattered_factors({2, 3, 2}, {2, 5, 2}, 3)};

double added_up(double a, double b) { return a + b; }
double multiplied_up(double a, double b) { return a * b; }

WICK_OP_CASE(scatter_reduce_sum, .samples = kScatteredFactors,
             .call = call_with(ScatterReduction::kSum, false),
             .reference = scattered(added_up, false), .tolerance = Tolerance::reduction(),
             .second_order = true);
WICK_OP_CASE(scatter_reduce_mean, .samples = kScatteredFactors,
             .call = call_with(ScatterReduction::kMean, true),
             .reference = scattered(added_up, true, true), .tolerance = Tolerance::reduction(),
             .second_order = true);
WICK_OP_CASE(scatter_reduce_prod, .samples = kScatteredFactors,
             .call = call_with(ScatterReduction::kProd, true),
             .reference = scattered(multiplied_up, true), .tolerance = Tolerance::reduction(),
             .second_order = true);
WICK_OP_CASE(scatter_reduce_prod_alone, .samples = kScatteredFactors,
             .call = call_with(ScatterReduction::kProd, false),
             .reference = scattered(multiplied_up, false), .tolerance = Tolerance::reduction());
WICK_OP_CASE(scatter_reduce_amax, .covers = {"scatter_extreme"}, .samples = kScatteredPlaces,
             .call = call_with(ScatterReduction::kAmax, true),
             .reference = scattered([](double a, double b) { return std::max(a, b); }, true),
             .tolerance = Tolerance::exact());
WICK_OP_CASE(scatter_reduce_amin, .samples = kScatteredPlaces,
             .call = call_with(ScatterReduction::kAmin, false),
             .reference = scattered([](double a, double b) { return std::min(a, b); }, false),
             .tolerance = Tolerance::exact());

// The figures are PyTorch's, but for the 10 of kAmax without x: there it halves the gradient for an
// x that does not count.
TEST(ScatterReduce, SharesGradientsAsPyTorch) {
  struct Expected {
    ScatterReduction reduction;
    bool include_self;
    Numbers y, dx, dsource;
  };
  const Expected all[] = {
      {ScatterReduction::kAmax, true, {5, 2, 2, 3}, {0, 5, 100, 1000}, {0.5, 0.5, 5, 0}},
      {ScatterReduction::kAmin, true, {1, 1, 2, 3}, {1, 0, 100, 1000}, {0, 0, 0, 10}},
      {ScatterReduction::kProd, true, {25, 4, 2, 3}, {25, 20, 100, 1000}, {5, 5, 20, 40}},
      {ScatterReduction::kAmax, false, {5, 2, 2, 3}, {0, 0, 100, 1000}, {0.5, 0.5, 10, 0}},
      {ScatterReduction::kAmin, false, {5, 1, 2, 3}, {0, 0, 100, 1000}, {0.5, 0.5, 0, 10}},
      {ScatterReduction::kProd, false, {25, 2, 2, 3}, {0, 0, 100, 1000}, {5, 5, 10, 20}},
      {ScatterReduction::kMean, false, {5, 1.5, 2, 3}, {0, 0, 100, 1000}, {0.5, 0.5, 5, 5}}};
  for (const Device device : devices()) {
    for (const Expected& expected : all) {
      const Tensor x = tensor({1.0, 2.0, 2.0, 3.0}).to(device).set_requires_grad();
      const Tensor source = tensor({5.0, 5.0, 2.0, 1.0}).to(device).set_requires_grad();
      const Tensor index = tensor<int64_t>({0, 0, 1, 1}).to(device);
      const Tensor y =
          scatter_reduce(x, 0, index, source, expected.reduction, expected.include_self);
      EXPECT_EQ(y.cpu().to_vector<double>(), expected.y);
      y.backward(tensor({1.0, 10.0, 100.0, 1000.0}).to(device));
      EXPECT_EQ(x.grad().cpu().to_vector<double>(), expected.dx);
      EXPECT_EQ(source.grad().cpu().to_vector<double>(), expected.dsource);
    }
  }
}

TEST(ScatterReduce, TakesNanZerosAndIntegers) {
  const Tensor x = zeros({2}), index = tensor<int64_t>({0, 0, 1});
  const Tensor source = tensor({NAN, 1.f, 2.f});
  for (const auto reduction : {ScatterReduction::kAmax, ScatterReduction::kAmin}) {
    const Tensor y = scatter_reduce(x, 0, index, source, reduction, false);
    EXPECT_TRUE(std::isnan(y[0].item()));
    EXPECT_EQ(y[1].item(), 2);
  }
  const Tensor whole = tensor<int64_t>({7, 7}), few = tensor<int64_t>({-4, 9, 2});
  const auto of = [&](ScatterReduction reduction, bool include_self) {
    return scatter_reduce(whole, 0, index, few, reduction, include_self).to_vector<int64_t>();
  };
  EXPECT_EQ(of(ScatterReduction::kAmin, true), (Integers{-4, 2}));
  EXPECT_EQ(of(ScatterReduction::kAmax, false), (Integers{9, 2}));
  EXPECT_EQ(of(ScatterReduction::kMean, true), (Integers{4, 4}));
  EXPECT_EQ(of(ScatterReduction::kProd, false), (Integers{-36, 2}));
  // Also where a factor is 0.
  const Tensor factors = tensor({0.0, 3.0}).set_requires_grad();
  scatter_reduce(ones({1}, kFloat64), 0, tensor<int64_t>({0, 0}), factors, ScatterReduction::kProd)
      .sum()
      .backward();
  EXPECT_EQ(factors.grad().to_vector<double>(), (Numbers{3, 0}));
}

WICK_OP_CASE(
    index_copy, .samples = {{normal({5, 4}), normal({2, 4})}, {normal({5}), normal({2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {index_copy(x[0], 0, tensor<int64_t>({4, 1}).to(x[0].device()), x[1])};
    },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = in[0];
      for_each_coordinate(in[1].shape, [&](Shape c) {
        const double value = at(in[1], c);
        c[0] = c[0] == 0 ? 4 : 1;
        at(y, c) = value;
      });
      return {y};
    },
    .tolerance = Tolerance::exact(), .second_order = true);
WICK_OP_CASE(
    take, .samples = {{normal({3, 4}), index({2, 5}, 0, 12)}},
    .call = [](const Tensors& x) -> Tensors { return {take(x[0], x[1])}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = in[1];
      for (double& v : y.values) v = in[0].values[static_cast<size_t>(v)];
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    masked_scatter, .samples = {{normal({5, 7}), mask({5, 7}), normal({40})}},
    .call = [](const Tensors& x) -> Tensors { return {masked_scatter(x[0], x[1], x[2])}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = in[0];
      size_t next = 0;
      for (size_t i = 0; i < y.values.size(); ++i) {
        if (in[1].values[i] != 0) y.values[i] = in[2].values[next++];
      }
      return {y};
    },
    .tolerance = Tolerance::exact(), .second_order = true, .traceable = false);

TEST(IndexFill, WritesOneNumber) {
  for (const Device device : devices()) {
    const Tensor x = zeros({2, 3}, kInt64, device), index = tensor<int64_t>({2, 0}).to(device);
    EXPECT_EQ(index_fill(x, 1, index, 7).cpu().to_vector<int64_t>(), (Integers{7, 0, 7, 7, 0, 7}));
    EXPECT_EQ(scatter(x, 1, index.reshape({2, 1}), 5).cpu().to_vector<int64_t>(),
              (Integers{0, 0, 5, 5, 0, 0}));
  }
  EXPECT_EQ(index_fill(scalar_tensor(1), 0, tensor<int64_t>({0}), 3).item(), 3);
}

TEST(Put, WritesWhatTakeReads) {
  for (const Device device : devices()) {
    const Tensor x = tensor({1.0, 2.0, 3.0, 4.0}, Shape{2, 2}).to(device).requires_grad_();
    const Tensor index = tensor<int64_t>({-1, 0, 3}).to(device);
    const auto numbers = [](const Tensor& y) { return y.detach().cpu().to_vector<double>(); };
    EXPECT_EQ(numbers(take(x, index)), (Numbers{4, 1, 4}));
    const Tensor source = tensor({10.0, 20.0, 30.0}).to(device).requires_grad_();
    EXPECT_EQ(numbers(put(x, index, source)), (Numbers{20, 2, 3, 30}));
    const Tensor added = put(x, index, source, true);
    EXPECT_EQ(numbers(added), (Numbers{21, 2, 3, 44}));
    (added * x.detach()).sum().backward();
    EXPECT_EQ(numbers(x.grad()), (Numbers{1, 2, 3, 4}));
    EXPECT_EQ(numbers(source.grad()), (Numbers{4, 1, 4}));
    const Tensor rows = tensor<int64_t>({1, -2}).to(device), columns = index.slice(0, 1, 2);
    EXPECT_EQ(numbers(index_put(x, {rows, columns}, ones({2}, kFloat64, device), true)),
              (Numbers{2, 2, 4, 4}));
    EXPECT_EQ(numbers(index_put(x, {rows}, ones({1}, kFloat64, device))), (Numbers{1, 1, 1, 1}));
    const Tensor two = tensor({7.0, 8.0}).to(device);
    EXPECT_EQ(numbers(index_put(x, {x > 2}, two)), (Numbers{1, 2, 7, 8}));
    EXPECT_EQ(numbers(index_put(x, {rows == 1}, two, true)), (Numbers{8, 10, 3, 4}));
    const Tensor slices = tensor({5.0, 6.0, 7.0, 8.0}, Shape{2, 2}).to(device);
    EXPECT_EQ(
        numbers(index_reduce(x, 0, zeros({2}, kInt64, device), slices, ScatterReduction::kProd)),
        (Numbers{35, 96, 3, 4}));
  }
  EXPECT_EQ(error_of([] { put(ones({2}), zeros({2}, kInt64), ones({3})); }),
            "put: source has the wrong shape: got [3], expected an element for each of index [2]");
  EXPECT_EQ(error_of([] { index_put(ones({2}), {ones({3}, kBool)}, ones({3})); }),
            "index_put: a mask has the wrong shape: got [3] at axis 0 of [2]");
}

TEST(Scattering, ChecksItsShapes) {
  const Tensor x = zeros({2, 3}), index = tensor<int64_t>({0, 1});
  EXPECT_EQ(error_of([&] {
              index_copy(x, 1, index, zeros({2, 3}));
            }),
            "index_copy: source has the wrong shape: got [2, 3], expected [2, 2]");
  EXPECT_EQ(error_of([&] { masked_scatter(x, x == 0, zeros({5})); }),
            "masked_scatter: too few elements: got 5, expected 6 or more");
  EXPECT_THROW(scatter_reduce(x, 1, index, zeros({2}), ScatterReduction::kSum), Error);
  EXPECT_THROW(
      scatter_reduce(x, 1, index.reshape({2, 1}), zeros({2, 1}, kFloat64), ScatterReduction::kSum),
      Error);
  EXPECT_THROW(
      scatter_reduce(x, 1, index.reshape({1, 2}) + 5, zeros({1, 2}), ScatterReduction::kAmax),
      Error);
}

}  // namespace
}  // namespace wick::testing
