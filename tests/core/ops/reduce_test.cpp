#include "wick/core/ops/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

using Group = std::vector<double>;

// Applies `function` to the elements of each group along `axes` (none: all).
Arrays reduced(const HostArray& x, const Shape& axes, bool keepdim,
               const std::function<double(const Group&)>& function) {
  const int rank = x.shape.rank();
  std::vector<bool> gone(static_cast<size_t>(rank), axes.empty());
  for (const int64_t a : axes) gone[static_cast<size_t>(wrap_axis("test", a, rank))] = true;
  HostArray y;
  Shape kept = x.shape;
  for (int a = 0; a < rank; ++a) {
    if (gone[static_cast<size_t>(a)]) kept[a] = 1;
    if (keepdim || !gone[static_cast<size_t>(a)]) y.shape.push_back(kept[a]);
  }
  std::vector<Group> groups(static_cast<size_t>(kept.numel()));
  for (int64_t i = 0; i < x.shape.numel(); ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (int a = rank - 1; a >= 0; --a) {
      if (!gone[static_cast<size_t>(a)]) at += rest % x.shape[a] * step;
      step *= kept[a];
      rest /= x.shape[a];
    }
    groups[static_cast<size_t>(at)].push_back(x.values[static_cast<size_t>(i)]);
  }
  for (const Group& g : groups) y.values.push_back(function(g));
  return {y};
}

double total(const Group& g) {
  double s = 0;
  for (const double v : g) s += v;
  return s;
}
double average(const Group& g) { return total(g) / static_cast<double>(g.size()); }
double product(const Group& g) {
  double p = 1;
  for (const double v : g) p *= v;
  return p;
}
double largest(const Group& g) { return *std::max_element(g.begin(), g.end()); }
double smallest(const Group& g) { return *std::min_element(g.begin(), g.end()); }
double variance(const Group& g, double correction) {
  const double m = average(g);
  double s = 0;
  for (const double v : g) s += (v - m) * (v - m);
  return s / (static_cast<double>(g.size()) - correction);
}
double log_sum_exp(const Group& g) {
  double s = 0;
  for (const double v : g) s += std::exp(v);
  return std::log(s);
}
double power_norm(const Group& g, double p) {
  double s = 0;
  for (const double v : g) s += std::pow(std::abs(v), p);
  return std::pow(s, 1 / p);
}

// Shapes and axes that reach every path of the kernel: rows, columns, runs in several walks, tails,
// and enough elements for chunks.
Samples shapes(const std::function<Input(const Shape&)>& fill) {
  return {{fill({31, 33})},
          {fill({2, 3, 4, 5})},
          {fill({1, 1})},
          {fill({3, 130, 129})},
          {fill({20000, 3})}};
}
// What error is allowed is a share of the result: that of many numbers must not be near 0.
Samples normals() {
  return shapes([](const Shape& s) { return s.numel() > 5000 ? uniform(s, -1, 2) : normal(s); });
}

#define REDUCE_CASE(id, op, axes, keepdim, function, inputs)                               \
  WICK_OP_CASE(                                                                            \
      id, .samples = inputs,                                                               \
      .call = [](const Tensors& x) -> Tensors { return {op(x[0], axes, keepdim)}; },       \
      .reference = [](const Arrays& x) { return reduced(x[0], axes, keepdim, function); }, \
      .tolerance = Tolerance::reduction(), .second_order = true)

const Shape kAll{};
const Shape kFirst{0};
const Shape kLast{-1};
const Shape kBoth{0, -1};

REDUCE_CASE(sum_all, sum, kAll, false, total, normals());
REDUCE_CASE(sum_first, sum, kFirst, true, total, normals());
REDUCE_CASE(sum_last, sum, kLast, false, total, normals());
REDUCE_CASE(sum_both, sum, kBoth, false, total, normals());
REDUCE_CASE(mean_all, mean, kAll, true, average, normals());
REDUCE_CASE(mean_first, mean, kFirst, false, average, normals());
REDUCE_CASE(mean_last, mean, kLast, true, average, normals());
REDUCE_CASE(mean_both, mean, kBoth, false, average, normals());
REDUCE_CASE(logsumexp_all, logsumexp, kAll, false, log_sum_exp, normals());
REDUCE_CASE(logsumexp_first, logsumexp, kFirst, false, log_sum_exp, normals());
REDUCE_CASE(logsumexp_last, logsumexp, kLast, true, log_sum_exp, normals());

const Samples kDistinct = {{distinct({7, 9})}, {distinct({2, 3, 4, 5})}, {distinct({1, 1})}};
REDUCE_CASE(amax_all, amax, kAll, false, largest, kDistinct);
REDUCE_CASE(amax_first, amax, kFirst, false, largest, kDistinct);
REDUCE_CASE(amax_last, amax, kLast, true, largest, kDistinct);
REDUCE_CASE(amin_all, amin, kAll, true, smallest, kDistinct);
REDUCE_CASE(amin_first, amin, kFirst, false, smallest, kDistinct);
REDUCE_CASE(amin_last, amin, kLast, false, smallest, kDistinct);

const Samples kFactors = {
    {uniform({3, 9}, 2, 3.2)}, {uniform({4, 5}, 0.5, 1.5)}, {uniform({2, 3, 2, 3}, -1.5, 1.5)}};
REDUCE_CASE(prod_all, prod, kAll, false, product, kFactors);
REDUCE_CASE(prod_first, prod, kFirst, true, product, kFactors);
REDUCE_CASE(prod_both, prod, kBoth, false, product, kFactors);

const Samples kSpread = {{normal({31, 33})}, {normal({2, 3, 4, 5})}, {normal({130, 129})}};
WICK_OP_CASE(
    var_first, .samples = kSpread,
    .call = [](const Tensors& x) -> Tensors { return {var(x[0], kFirst)}; },
    .reference =
        [](const Arrays& x) {
          return reduced(x[0], kFirst, false, [](const Group& g) { return variance(g, 1); });
        },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    var_all, .samples = kSpread,
    .call = [](const Tensors& x) -> Tensors { return {var(x[0], kAll, 0, true)}; },
    .reference =
        [](const Arrays& x) {
          return reduced(x[0], kAll, true, [](const Group& g) { return variance(g, 0); });
        },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    stddev_last, .samples = kSpread,
    .call = [](const Tensors& x) -> Tensors { return {stddev(x[0], kLast)}; },
    .reference =
        [](const Arrays& x) {
          return reduced(x[0], kLast, false,
                         [](const Group& g) { return std::sqrt(variance(g, 1)); });
        },
    .tolerance = Tolerance::reduction(), .second_order = true);

#define NORM_CASE(id, ord, axes)                                                                  \
  WICK_OP_CASE(                                                                                   \
      id,                                                                                         \
      .samples = {{uniform({31, 33}, 0.2, 2)},                                                    \
                  {uniform({2, 3, 4, 5}, -2, -0.2)},                                              \
                  {uniform({2, 3}, 4, 9)}},                                                       \
      .call = [](const Tensors& x) -> Tensors { return {norm(x[0], ord, axes)}; },                \
      .reference =                                                                                \
          [](const Arrays& x) {                                                                   \
            return reduced(x[0], axes, false, [](const Group& g) { return power_norm(g, ord); }); \
          },                                                                                      \
      .tolerance = Tolerance::reduction(), .second_order = true)
NORM_CASE(norm_2_all, 2, kAll);
NORM_CASE(norm_2_first, 2, kFirst);
NORM_CASE(norm_1_last, 1, kLast);
NORM_CASE(norm_3_both, 3, kBoth);
NORM_CASE(norm_6_last, 6, kLast);
NORM_CASE(norm_half_all, 0.5, kLast);
WICK_OP_CASE(
    cosine_similarity,
    .samples = {{normal({4, 31}), normal({4, 31})},
                {uniform({3, 1, 5}, 0.5, 2), uniform({2, 1}, 0.5, 2)}},
    .call = [](const Tensors& x) -> Tensors {
      return {cosine_similarity(x[0], x[1], 1), cosine_similarity(x[0], x[1], -1)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      const auto cosine = [&](int64_t axis) {
        const Tensor zero = zeros_like(x[0] * x[1]).detach(), a = x[0] + zero, b = x[1] + zero;
        return sum(a * b, {axis}) * rsqrt(sum(a * a, {axis}) * sum(b * b, {axis}));
      };
      return {cosine(1), cosine(-1)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    norm_inf, .samples = kDistinct,
    .call = [](const Tensors& x) -> Tensors {
      return {norm(x[0], std::numeric_limits<double>::infinity(), kLast)};
    },
    .reference =
        [](const Arrays& x) {
          return reduced(x[0], kLast, false, [](const Group& g) {
            return std::max(std::abs(largest(g)), std::abs(smallest(g)));
          });
        },
    .differentiable = false);

WICK_OP_CASE(
    any_all, .covers = {"any", "all"}, .samples = {{mask({5, 7})}, {mask({2, 3, 4})}},
    .call = [](const Tensors& x) -> Tensors {
      return {any(x[0], {0}), all(x[0], {-1})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {reduced(x[0], {0}, false, largest)[0], reduced(x[0], {-1}, false, smallest)[0]};
    },
    .dtypes = {kFloat32}, .differentiable = false);

double first_largest(const Group& g) {
  return static_cast<double>(std::max_element(g.begin(), g.end()) - g.begin());
}
double first_smallest(const Group& g) {
  return static_cast<double>(std::min_element(g.begin(), g.end()) - g.begin());
}
WICK_OP_CASE(
    arg_reduce, .covers = {"arg_reduce"},
    .samples = {{distinct({7, 9})},
                {distinct({2, 30, 4})},
                {normal({3, 1025})},
                {normal({2, 50000})},
                {normal({20000, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      return {argmax(x[0], -1), argmin(x[0], 0, true), argmax(x[0]), argmax(x[0], 1)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {
          reduced(x[0], {-1}, false, first_largest)[0], reduced(x[0], {0}, true, first_smallest)[0],
          reduced(x[0], {}, false, first_largest)[0], reduced(x[0], {1}, false, first_largest)[0]};
    },
    .differentiable = false);

TEST(Reduce, IntegersSumInInt64) {
  const Tensor x = tensor<uint8_t>({200, 100, 255, 1}, Shape{2, 2});
  EXPECT_EQ(sum(x, {0}).to_vector<int64_t>(), (std::vector<int64_t>{455, 101}));
  EXPECT_EQ(sum(x, {1}).to_vector<int64_t>(), (std::vector<int64_t>{300, 256}));
  EXPECT_EQ(prod(x, {1}).to_vector<int64_t>(), (std::vector<int64_t>{20000, 255}));
  EXPECT_EQ(amax(x).item<int64_t>(), 255);
  EXPECT_EQ(amin(x, {1}).to_vector<uint8_t>(), (std::vector<uint8_t>{100, 1}));
  EXPECT_EQ(sum(tensor<bool>({true, false, true})).item<int64_t>(), 2);
  EXPECT_EQ(sum(full({1 << 12}, int64_t{1} << 50, kInt64)).item<int64_t>(), int64_t{1} << 62);
  EXPECT_THROW(mean(x), Error);
  EXPECT_THROW(var(x), Error);
}

TEST(Reduce, OfNothing) {
  const Tensor none = empty({0, 3});
  EXPECT_EQ(sum(none, {0}).to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(prod(none, {0}).to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(norm(none).item<float>(), 0);
  EXPECT_TRUE(std::isnan(mean(none).item<float>()));
  EXPECT_TRUE(std::isnan(var(none).item<float>()));
  EXPECT_EQ(logsumexp(none).item<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_FALSE(any(none).item<bool>());
  EXPECT_TRUE(all(none).item<bool>());
  EXPECT_EQ(amax(none, {1}).shape(), Shape{0});
  EXPECT_EQ(sum(none, {1}).shape(), Shape{0});
  EXPECT_THROW(amax(none), Error);
  EXPECT_THROW(amin(none, {0}), Error);
  EXPECT_THROW(argmax(none), Error);
  EXPECT_THROW(argmin(none, 0), Error);
}

TEST(Reduce, TruthOfBytesIsABit) {
  const Tensor x = tensor<uint8_t>({0, 2});
  EXPECT_EQ(any(x).item<int64_t>(), 1);
  EXPECT_EQ(all(x).item<int64_t>(), 0);
  EXPECT_EQ(any(x).dtype(), kUint8);
  EXPECT_EQ(all(x, {0}).dtype(), kUint8);
  EXPECT_EQ(any(x.to(kInt64)).dtype(), kBool);
}

TEST(Reduce, SaysWhichAxesAreWrong) {
  const Tensor x = ones({2, 3});
  EXPECT_THROW(sum(x, {2}), Error);
  EXPECT_THROW(sum(x, {0, -2}), Error);
  EXPECT_THROW(argmax(x, -3), Error);
  EXPECT_EQ(sum(scalar_tensor(3.0), {0}).item(), 3);
  EXPECT_EQ(sum(scalar_tensor(3.0), {-1}).item(), 3);
}

TEST(Reduce, NaNPropagates) {
  for (const int64_t size : {3, 17, 1000}) {
    for (int64_t at = 0; at < size; at += 7) {
      Tensor x = arange(0, size, 1, kFloat32);
      x.data<float>()[at] = std::nanf("");
      EXPECT_TRUE(std::isnan(amax(x).item<float>())) << size << " " << at;
      EXPECT_TRUE(std::isnan(amin(x).item<float>())) << size << " " << at;
      EXPECT_TRUE(std::isnan(amax(x.unsqueeze(1), {0}).item<float>())) << size << " " << at;
      EXPECT_EQ(argmax(x).item<int64_t>(), at);
      EXPECT_EQ(argmin(x.unsqueeze(1), 0).item<int64_t>(), at);
    }
  }
  EXPECT_TRUE(any(full({2}, std::nan(""))).item<bool>());
}

TEST(Reduce, InfinitiesInLogsumexp) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(logsumexp(tensor<double>({inf, 1})).item(), inf);
  EXPECT_EQ(logsumexp(tensor<double>({-inf, -inf})).item(), -inf);
  EXPECT_NEAR(logsumexp(tensor<float>({1000, 1000})).item(), 1000 + std::log(2.0), 1e-4);
}

TEST(Reduce, LogsumexpOfIntegersIsFloat32) {
  const Tensor y = logsumexp(tensor<int64_t>({1000, 1000}));
  EXPECT_EQ(y.dtype(), kFloat32);
  EXPECT_NEAR(y.item(), 1000 + std::log(2.0), 1e-4);
  EXPECT_NEAR(logsumexp(tensor<bool>({true, true})).item(), 1 + std::log(2.0), 1e-6);
}

TEST(Reduce, LongSumsAreAsGoodAsDouble) {
  const int64_t n = 3000000;
  Tensor x = empty({n});
  double exact = 0;
  for (int64_t i = 0; i < n; ++i) {
    x.data<float>()[i] = 1 + static_cast<float>(i % 7) * 0.1f;
    exact += static_cast<double>(x.data<float>()[i]);
  }
  EXPECT_NEAR(sum(x).item<float>() / exact, 1, 2e-7);
  EXPECT_NEAR(sum(x.reshape({n / 4, 4}), {0}).sum().item<float>() / exact, 1, 3e-7);
  EXPECT_NEAR(mean(x.reshape({n / 1000, 1000}), {0}).sum().item<float>() * n / 1000 / exact, 1,
              4e-7);
}

TEST(Reduce, VarianceSurvivesALargeOffset) {
  Tensor x = empty({1000, 3});
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(1000000 + i % 4);
  const float want = 1.25f * 1000 / 999;
  for (const float v : var(x, {0}).to_vector<float>()) EXPECT_NEAR(v, want, 1e-5);
  EXPECT_NEAR(var(x).item<float>(), 1.25f * 3000 / 2999, 1e-5);
}

TEST(Reduce, ReadsInPlaceWhateverTheStrides) {
  const Tensor x = arange(0, 2 * 6 * 10, 1, kFloat32).reshape({2, 6, 10});
  const Tensor strided = x.slice(1, 1, 6, 2).slice(2, 0, 10, 3).permute({2, 0, 1});
  const Tensor dense = strided.contiguous();
  for (const Shape& axes : {Shape{}, Shape{0}, Shape{1}, Shape{2}, Shape{0, 2}, Shape{1, 2}}) {
    EXPECT_EQ(sum(strided, axes).to_vector<float>(), sum(dense, axes).to_vector<float>())
        << to_string(axes);
  }
  EXPECT_EQ(sum(scalar_tensor(2.0f).expand({3, 100}), {1}).to_vector<float>(),
            (std::vector<float>{200, 200, 200}));
}

TEST(Reduce, TiesShareTheGradient) {
  const Tensor x = tensor<float>({3, 1, 3, 2}).set_requires_grad();
  amax(x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0.5f, 0, 0.5f, 0}));
  const Tensor y = tensor<float>({-3, 1, 3}).set_requires_grad();
  norm(y, std::numeric_limits<double>::infinity()).backward();
  EXPECT_EQ(y.grad().to_vector<float>(), (std::vector<float>{-0.5f, 0, 0.5f}));
}

TEST(Reduce, ProductOfZerosHasAGradient) {
  const Tensor x = tensor<double>({0, 2, 3, 0, 0, 5, 1, 2, 3}, Shape{3, 3}).set_requires_grad();
  const std::vector<double> want{6, 0, 0, 0, 0, 0, 6, 3, 2};
  prod(x, {1}).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), want);
  const Tensor with_graph = grad({prod(x, {1}).sum()}, {x}, {}, false, true)[0];
  EXPECT_EQ(with_graph.to_vector<double>(), want);
  // d2/dx1dx2 of x0 x1 x2 at (0, 2, 3) is 0, d2/dx0dx1 is 3.
  const Tensor second = grad({with_graph.sum()}, {x})[0];
  EXPECT_EQ(second.to_vector<double>(), (std::vector<double>{5, 3, 2, 5, 5, 0, 5, 4, 3}));
}

TEST(Reduce, NormsOfZeroHaveGradientZero) {
  for (const double ord : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0}) {
    const Tensor x = zeros({3}, kFloat64).set_requires_grad();
    norm(x, ord).backward();
    EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0, 0})) << ord;
  }
  for (const double ord : {-0.5, -1.0, -2.0}) {  // one element of 0 makes the norm 0
    const Tensor x = tensor<double>({0, 1, -2}).set_requires_grad();
    const Tensor y = norm(x, ord);
    EXPECT_EQ(y.item(), 0) << ord;
    y.backward();
    EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0, 0})) << ord;
  }
  const Tensor x = full({3}, 4, kFloat64).set_requires_grad();
  stddev(x).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(norm(tensor<float>({0, 3, 0, -1}), 0).item<float>(), 2);
  EXPECT_EQ(norm(tensor<float>({2, 3, -1}), -std::numeric_limits<double>::infinity()).item<float>(),
            1);
}

TEST(Reduce, CosineOfNothingIsZero) {
  const Tensor x = zeros({2, 3}).set_requires_grad(), y = ones({2, 3});
  const Tensor cosine = cosine_similarity(x, y);
  EXPECT_EQ(cosine.to_vector<float>(), (std::vector<float>{0, 0}));
  cosine.sum().backward();
  EXPECT_TRUE(all(isfinite(x.grad())).item<bool>());
  EXPECT_THROW(cosine_similarity(x, ones({2, 3}, kInt64)), Error);
}

TEST(Reduce, SumToUndoesBroadcasting) {
  const Tensor g = ones({4, 2, 3});
  EXPECT_TRUE(sum_to(g, {4, 2, 3}).is_same(g));
  EXPECT_EQ(sum_to(g, {2, 1}).to_vector<float>(), (std::vector<float>{12, 12}));
  EXPECT_EQ(sum_to(g, {}).item<float>(), 24);
  EXPECT_EQ(sum_to(g, {1, 3}).shape(), (Shape{1, 3}));
  EXPECT_THROW(sum_to(g, {5}), Error);
  EXPECT_THROW(sum_to(ones({3}), {2, 3}), Error);
}

TEST(Reduce, SumsToTheDtypeAskedFor) {
  // 2^24 + 1, which is no float32, in more elements than are added up as float32.
  const Tensor x = cat({full({4096}, 4096), ones({1}), zeros({4095})}).set_requires_grad();
  const Tensor y = sum(x, {}, false, kFloat64);
  EXPECT_EQ(y.dtype(), kFloat64);
  EXPECT_EQ(y.item(), 16777217);
  y.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(8192, 1));
  EXPECT_EQ(sum(x, {}, false, kInt64).item<int64_t>(), 16777217);
  EXPECT_EQ(sum(tensor<int64_t>({1, 2}), {0}, true, kFloat32).dtype(), kFloat32);
  const Tensor bits = tensor<int64_t>({1, 2, 0, 3}, Shape{2, 2});
  EXPECT_EQ(prod(bits, {1}, false, kBool).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(prod(bits, {1}, false, kInt32).to_vector<int32_t>(), (std::vector<int32_t>{2, 0}));
}

}  // namespace
}  // namespace wick::testing
