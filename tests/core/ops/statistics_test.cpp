#include "wick/core/ops/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using Numbers = std::vector<double>;
using Integers = std::vector<int64_t>;

// `reference` of what `pick` makes of each line along axis 1.
std::function<Arrays(const Arrays&)> of_lines(double (*pick)(Numbers)) {
  return [pick](const Arrays& in) -> Arrays {
    Shape shape = in[0].shape;
    const int64_t n = shape[1];
    shape.erase(1);
    HostArray y = filled(shape);
    for_each_coordinate(shape, [&](const Shape& c) {
      Numbers line;
      Shape from = c;
      from.insert(1, 0);
      for (from[1] = 0; from[1] < n; ++from[1]) line.push_back(at(in[0], from));
      at(y, c) = pick(line);
    });
    return {y};
  };
}
double sorted_at(Numbers line, size_t k) {
  std::sort(line.begin(), line.end());
  return line[k];
}

HostArray middle_of(const HostArray& x) {
  Numbers all;
  for_each_coordinate(x.shape, [&](const Shape& c) { all.push_back(at(x, c)); });
  const size_t n = all.size();
  HostArray y = filled({});
  at(y, {}) = sorted_at(std::move(all), (n - 1) / 2);
  return y;
}

const Samples kLines = {{distinct({5, 7})}, {distinct({3, 6, 4})}, {distinct({2, 1})}};

WICK_OP_CASE(
    median, .samples = kLines,
    .call = [](const Tensors& x) -> Tensors { return {median(x[0], 1).values}; },
    .reference = of_lines([](Numbers line) { return sorted_at(line, (line.size() - 1) / 2); }),
    .tolerance = Tolerance::exact(), .second_order = true);
WICK_OP_CASE(
    nanmedian, .samples = kLines,
    .call = [](const Tensors& x) -> Tensors { return {nanmedian(x[0], 1).values}; },
    .reference = of_lines([](Numbers line) { return sorted_at(line, (line.size() - 1) / 2); }),
    .tolerance = Tolerance::exact());
WICK_OP_CASE(
    median_of_all, .samples = kLines,
    .call = [](const Tensors& x) -> Tensors {
      return {median(x[0]), nanmedian(x[0])};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {middle_of(x[0]), middle_of(x[0])};
    },
    .tolerance = Tolerance::exact(), .second_order = true);
WICK_OP_CASE(
    kthvalue, .samples = kLines,
    .call = [](const Tensors& x) -> Tensors { return {kthvalue(x[0], 1, 1).values}; },
    .reference = of_lines([](Numbers line) { return sorted_at(line, 0); }),
    .tolerance = Tolerance::exact());
WICK_OP_CASE(
    quantile, .samples = kLines,
    .call = [](const Tensors& x) -> Tensors { return {quantile(x[0], 0.3, 1)}; },
    .reference = of_lines([](Numbers line) {
      const double place = 0.3 * static_cast<double>(line.size() - 1);
      const auto below = static_cast<size_t>(place);
      const size_t above = std::min(below + 1, line.size() - 1);
      const double a = sorted_at(line, below), b = sorted_at(line, above);
      return a + (place - static_cast<double>(below)) * (b - a);
    }),
    .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    cummax, .samples = kLines,
    .call = [](const Tensors& x) -> Tensors {
      return {cummax(x[0], 1).values.select(1, -1), cummin(x[0], 1).values.select(1, -1)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      return {of_lines([](Numbers line) { return sorted_at(line, line.size() - 1); })(in)[0],
              of_lines([](Numbers line) { return sorted_at(line, 0); })(in)[0]};
    },
    .tolerance = Tolerance::exact());
WICK_OP_CASE(
    logcumsumexp,
    .samples = {{normal({5, 7})}, {normal({3, 33})}, {normal({2, 1})}, {normal({2, 0})}},
    .call = [](const Tensors& x) -> Tensors { return {logcumsumexp(x[0], 1)}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = in[0];
      for_each_coordinate(y.shape, [&](const Shape& c) {
        double sum = 0;
        for (int64_t k = 0; k <= c[1]; ++k) sum += std::exp(at(in[0], {c[0], k}));
        at(y, c) = std::log(sum);
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    nanmean, .samples = {{normal({5, 7})}, {normal({3, 33})}},
    .call = [](const Tensors& x) -> Tensors {
      return {nanmean(x[0], 1), nansum(x[0], 1)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      return {mean(x[0], 1), sum(x[0], 1)};
    },
    .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    var_mean, .samples = {{normal({5, 7})}},
    .call = [](const Tensors& x) -> Tensors {
      const auto both = var_mean(x[0], 1, 0);
      const auto roots = std_mean(x[0], 1, 0, true);
      return {both.first, both.second, roots.first};
    },
    .composed = [](const Tensors& x) -> Tensors {
      const Tensor m = mean(x[0], 1, true), v = mean(square(x[0] - m), 1, true);
      return {v.squeeze(1), m.squeeze(1), sqrt(v)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

constexpr double kNotANumber = NAN;

TEST(OrderStatistics, KnowWhereAndTakeNan) {
  const Tensor host = tensor({4.f, 1.f, 3.f, 2.f, NAN, 1.f, 2.f, 0.f}, Shape{2, 4});
  for (const Device device : devices()) {
    const Tensor x = host.to(device);
    const auto places = [](const Sorted& s) { return s.indices.cpu().to_vector<int64_t>(); };
    EXPECT_EQ(places(median(x, 1)), (Integers{3, 0}));
    EXPECT_TRUE(std::isnan(median(x, 1).values[1].item()));
    EXPECT_EQ(places(nanmedian(x, 1)), (Integers{3, 1}));
    EXPECT_EQ(places(kthvalue(x, 2, 1)), (Integers{3, 1}));
    EXPECT_EQ(kthvalue(x, 2, 0, true).values.shape(), (Shape{1, 4}));
    EXPECT_TRUE(std::isnan(median(x).item()));
    EXPECT_EQ(nanmedian(x).item(), 2);
    const Sorted most =
        mode(tensor({1.f, 2.f, 2.f, 3.f, 3.f, 5.f, 5.f, 1.f, 1.f, 0.f}, Shape{2, 5}).to(device));
    EXPECT_EQ(most.values.cpu().to_vector<float>(), (std::vector<float>{2, 1}));
    EXPECT_EQ(places(most), (Integers{2, 3}));
    const Tensor q = quantile(x, tensor({0.f, 0.25f, 0.5f}).to(device), 1).cpu();
    EXPECT_EQ(q.shape(), (Shape{3, 2}));
    EXPECT_EQ(q.select(1, 0).to_vector<float>(), (std::vector<float>{1, 1.75, 2.5}));
    EXPECT_TRUE(isnan(q.select(1, 1)).all().item<bool>());
    EXPECT_NEAR(nanquantile(x, 0.4, 1)[1].item(), 0.8, 1e-6);
    EXPECT_NEAR(nanquantile(x, 0.4, 1)[0].item(), 2.2, 1e-6);
  }
  EXPECT_EQ(median(scalar_tensor(3)).item(), 3);
  EXPECT_TRUE(std::isnan(median(zeros({0})).item()));
  EXPECT_TRUE(std::isnan(nanmedian(zeros({0})).item()));
  EXPECT_THROW(median(zeros({0}, kInt64)), Error);
  EXPECT_EQ(mode(scalar_tensor(3)).values.rank(), 0);
}

// As PyTorch does.
TEST(MedianOfAll, SharesItsGradientAmongEquals) {
  const auto gradient = [](const std::vector<double>& values, bool skips_nan) {
    const Tensor x = tensor(values).requires_grad_();
    (skips_nan ? nanmedian(x) : median(x)).backward();
    return x.grad().to_vector<double>();
  };
  for (const bool skips_nan : {false, true}) {
    EXPECT_EQ(gradient({2, 2, 2}, skips_nan), (Numbers{1 / 3.0, 1 / 3.0, 1 / 3.0}));
    EXPECT_EQ(gradient({1, 2, 2, 3}, skips_nan), (Numbers{0, 0.5, 0.5, 0}));
    EXPECT_EQ(gradient({4, 3, 2, 1}, skips_nan), (Numbers{0, 0, 1, 0}));
    EXPECT_EQ(gradient({NAN, NAN}, skips_nan), (Numbers{0.5, 0.5}));
  }
  EXPECT_EQ(gradient({NAN, NAN, 1}, false), (Numbers{0.5, 0.5, 0}));
  EXPECT_EQ(gradient({NAN, NAN, 1}, true), (Numbers{0, 0, 1}));
}

TEST(Quantile, LiesBetweenElementsAsAsked) {
  const Tensor x = tensor({4.0, 1.0, 3.0, 2.0}), q = tensor({0.1, 0.5, 0.9});
  const auto of = [&](QuantileMode mode) {
    return quantile(x, q, {}, false, mode).to_vector<double>();
  };
  EXPECT_EQ(of(QuantileMode::kLower), (Numbers{1, 2, 3}));
  EXPECT_EQ(of(QuantileMode::kHigher), (Numbers{2, 3, 4}));
  EXPECT_EQ(of(QuantileMode::kNearest), (Numbers{1, 3, 4}));
  EXPECT_EQ(of(QuantileMode::kMidpoint), (Numbers{1.5, 2.5, 3.5}));
  EXPECT_TRUE(allclose(quantile(x, q), tensor({1.3, 2.5, 3.7})));
  EXPECT_EQ(quantile(x, q, {}, true).shape(), (Shape{3, 1}));
  EXPECT_EQ(quantile(ones({2, 3, 4}), 0.5, 1, true).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(quantile(ones({2, 3, 4}), ones({5}), 1).shape(), (Shape{5, 2, 4}));
  EXPECT_EQ(error_of([&] { quantile(x, 1.5); }), "quantile: q: got 1.5, expected 0 to 1");
  EXPECT_THROW(quantile(tensor<int64_t>({1}), 0.5), Error);
  EXPECT_THROW(quantile(zeros({0}), 0.5), Error);
}

// The share and the weights of two elements are as exact as sums; the result is rounded once.
TEST(Quantile, IsRoundedOnce) {
  for (const Dtype dtype : {kFloat32, kFloat16, kBFloat16}) {
    SCOPED_TRACE(dtype);
    const Tensor x = (arange(300) * 200).to(dtype).set_requires_grad();
    const Tensor exact = x.detach().to(kFloat64).set_requires_grad();
    const auto expect_same = [&](const Tensor& got, const Tensor& want) {
      EXPECT_TRUE(equal(got, want.to(dtype)));
      const Tensor dx = grad({got}, {x})[0], dexact = grad({want}, {exact})[0];
      EXPECT_TRUE(allclose(dx, dexact.to(dtype), dtype == kFloat32 ? 1e-5 : 0, 0));
    };
    expect_same(quantile(x, 0.37), quantile(exact, 0.37));
    expect_same(nanquantile(x, 0.37), nanquantile(exact, 0.37));
    const Tensor q = scalar_tensor(0.37, dtype);
    expect_same(quantile(x, q), quantile(exact, q.to(kFloat64)));
  }
}

TEST(Quantile, IsDifferentiableByTheShare) {
  const Tensor x = tensor({4.0, 1.0, 3.0, 2.5});
  const Tensor q = tensor({0.1, 0.5, 0.9}).requires_grad_();
  quantile(x, q).sum().backward();
  EXPECT_TRUE(allclose(q.grad(), tensor({4.5, 1.5, 3.0})));
  nanquantile(x, q).sum().backward();
  EXPECT_TRUE(allclose(q.grad(), tensor({9.0, 3.0, 6.0})));
}

TEST(RunningExtremes, KeepTheLastOfEqualOnesAndNan) {
  for (const Device device : devices()) {
    const Sorted most = cummax(tensor({1.0, 3.0, 3.0, kNotANumber, 2.0}).to(device), 0);
    EXPECT_EQ(most.indices.cpu().to_vector<int64_t>(), (Integers{0, 1, 2, 3, 3}));
    EXPECT_TRUE(std::isnan(most.values[4].item()));
    const Sorted least = cummin(tensor<int64_t>({3, 1, 1, 2}).to(device), 0);
    EXPECT_EQ(least.indices.cpu().to_vector<int64_t>(), (Integers{0, 1, 2, 2}));
    EXPECT_EQ(least.values.cpu().to_vector<int64_t>(), (Integers{3, 1, 1, 1}));
    EXPECT_TRUE(allclose(logcumsumexp(tensor({1e3, 1e3, -1e3}).to(device), 0).cpu(),
                         tensor({1000.0, 1000.6931471805599, 1000.6931471805599})));
  }
  EXPECT_EQ(cummax(scalar_tensor(2), 0).values.item(), 2);
  EXPECT_EQ(cummax(zeros({0, 3}), 0).indices.shape(), (Shape{0, 3}));
  const Tensor x = tensor({1.0, 3.0, 2.0}).set_requires_grad();
  cummax(x, 0).values.sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Numbers{1, 2, 0}));
}

TEST(Statistics, LeaveNanOut) {
  const Tensor x = tensor({1.0, kNotANumber, 3.0, kNotANumber}, Shape{2, 2}).set_requires_grad();
  EXPECT_EQ(nansum(x, 1).to_vector<double>(), (Numbers{1, 3}));
  EXPECT_EQ(nanmean(x).item(), 2);
  EXPECT_TRUE(std::isnan(nanmean(tensor({kNotANumber})).item()));
  nansum(x).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Numbers{1, 0, 1, 0}));
  EXPECT_EQ(nansum(tensor<int64_t>({2, 3})).item<int64_t>(), 5);
  EXPECT_EQ(
      count_nonzero(tensor({0.0, 2.0, kNotANumber, 0.0}, Shape{2, 2}), 1).to_vector<int64_t>(),
      (Integers{1, 1}));
  const auto range = aminmax(tensor({3.f, -1.f, 2.f}));
  EXPECT_EQ(range.first.item(), -1);
  EXPECT_EQ(range.second.item(), 3);
  EXPECT_EQ(error_of([&] { kthvalue(ones({3}), 4); }),
            "kthvalue: k out of range: got 4 for axis -1 of shape [3], expected 1 to 3");
  EXPECT_EQ(error_of([&] {
              median(zeros({2, 0}), 1);
            }),
            "median: no elements to choose from: got shape [2, 0], axis 1");
  EXPECT_THROW(logcumsumexp(tensor<int64_t>({1}), 0), Error);
}

}  // namespace
}  // namespace wick::testing
