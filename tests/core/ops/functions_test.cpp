// Functions made of others, and those that change a tensor in place.
#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/einsum.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/softmax.h"
#include "wick/core/ops/sort.h"
#include "wick/core/ops/special.h"
#include "wick/core/ops/view.h"
#include "wick/tests/core/ops/elementwise_cases.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

// --- Mathematics --------------------------------------------------------------------------------

WICK_OP_CASE(tan, .samples = unary_samples(-1.2, 1.2), .call = call_of(tan),
             .reference = elementwise(std::tan), .second_order = true);
WICK_OP_CASE(log2, .samples = unary_samples(0.1, 9), .call = call_of(log2),
             .reference = elementwise(std::log2), .second_order = true);
WICK_OP_CASE(
    pow_half, .samples = unary_samples(0.1, 9),
    .call = [](const Tensors& x) -> Tensors { return {pow(x[0], 0.5)}; },
    .reference = elementwise(std::sqrt), .second_order = true);
WICK_OP_CASE(atan2, .samples = binary_samples(0.1, 2), .call = call_of(atan2),
             .reference = elementwise(std::atan2), .second_order = true);

TEST(Atan2, IsRightInAllDirections) {
  for (int i = 0; i < 2000; ++i) {
    const double angle = -3.141 + i * 0.00314, length = std::pow(10.0, i % 13 - 6);
    const double y = length * std::sin(angle), x = length * std::cos(angle);
    const double exact = std::atan2(y, x);
    EXPECT_NEAR(atan2(tensor({y}), tensor({x})).item(), exact, 1e-15) << y << " " << x;
    const float single = atan2(tensor({float(y)}), tensor({float(x)})).item<float>();
    EXPECT_NEAR(single, exact, 5e-7) << y << " " << x;
  }
}

TEST(Atan2, TakesZerosAndInfinities) {
  const double inf = INFINITY;
  for (const double y : {0.0, -0.0, 1.0, -1.0, inf, -inf}) {
    for (const double x : {0.0, -0.0, 1.0, -1.0, inf, -inf}) {
      const double got = atan2(tensor({y}), tensor({x})).item(), want = std::atan2(y, x);
      EXPECT_NEAR(got, want, 1e-15) << y << " " << x;
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << y << " " << x;
    }
  }
  EXPECT_TRUE(std::isnan(atan2(tensor({1.0}), tensor({double{NAN}})).item()));
  EXPECT_TRUE(std::isnan(atan2(tensor({double{NAN}}), tensor({inf})).item()));
}

TEST(Atan2, HasNoSlopeAtTheOrigin) {
  const Tensor y = tensor<double>({0, 0, 3}).set_requires_grad();
  const Tensor x = tensor<double>({0, 2, 4}).set_requires_grad();
  atan2(y, x).sum().backward();
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{0, 0.5, 4.0 / 25}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0, -3.0 / 25}));
}

// --- In place -----------------------------------------------------------------------------------

// A case's call of a member that changes a tensor, which is made from the input first.
template <class Change>
TensorFunction changed_by(Change change) {
  return [change](const Tensors& x) -> Tensors {
    const Tensor y = x[0] * 1.0;
    change(y);
    return {y};
  };
}

WICK_OP_CASE(neg_in_place, .samples = unary_samples(),
             .call = changed_by([](const Tensor& x) { x.neg_(); }),
             .reference = elementwise([](double x) { return -x; }), .second_order = true);
WICK_OP_CASE(exp_in_place, .samples = unary_samples(),
             .call = changed_by([](const Tensor& x) { x.exp_(); }),
             .reference = elementwise(std::exp), .second_order = true);
WICK_OP_CASE(sqrt_in_place, .samples = unary_samples(0.1, 3),
             .call = changed_by([](const Tensor& x) { x.sqrt_(); }),
             .reference = elementwise(std::sqrt), .second_order = true);
WICK_OP_CASE(sigmoid_in_place, .samples = unary_samples(),
             .call = changed_by([](const Tensor& x) { x.sigmoid_(); }),
             .reference = elementwise([](double x) { return 1 / (1 + std::exp(-x)); }),
             .second_order = true);
WICK_OP_CASE(tanh_in_place, .samples = unary_samples(),
             .call = changed_by([](const Tensor& x) { x.tanh_(); }),
             .reference = elementwise(std::tanh), .second_order = true);
WICK_OP_CASE(pow_in_place, .samples = unary_samples(0.2, 2),
             .call = changed_by([](const Tensor& x) { x.pow_(2.5); }),
             .reference = elementwise([](double x) { return std::pow(x, 2.5); }),
             .second_order = true);
WICK_OP_CASE(clamp_below_in_place, .samples = unary_samples(-2, 2, {0.8}),
             .call = changed_by([](const Tensor& x) { x.clamp_({}, 0.8); }),
             .reference = elementwise([](double x) { return std::min(x, 0.8); }));
WICK_OP_CASE(
    masked_fill_in_place,
    .samples = {{uniform({5, 33}), mask({33})}, {uniform({7}), mask({7})}, {uniform({}), mask({})}},
    .call = [](const Tensors& x) -> Tensors { return {(x[0] * 1.0).masked_fill_(x[1], 3)}; },
    .composed = [](const Tensors& x) -> Tensors { return {masked_fill(x[0], x[1], 3)}; },
    .second_order = true);

TEST(Rounding, OfIntegersIsACopy) {
  const Tensor x = tensor<int64_t>({2, -3});
  for (const Tensor& y : {floor(x), ceil(x), round(x), trunc(x)}) {
    EXPECT_TRUE(equal(x, y));
    EXPECT_NE(x.raw_data(), y.raw_data());
  }
}

TEST(Log2, IsExactAtPowersOfTwo) {
  for (const Dtype dtype : {kFloat32, kFloat64}) {
    std::vector<double> powers, logs;
    for (int i = -126; i < 128; ++i) {
      powers.push_back(std::ldexp(1.0, i));
      logs.push_back(i);
    }
    const Tensor y = log2(as_tensor(powers).to(dtype));
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to(kFloat64).to_vector<double>(), logs);
  }
  const std::vector<float> ends = log2(tensor({0.f, HUGE_VALF, -1.f})).to_vector<float>();
  EXPECT_EQ(ends[0], -HUGE_VALF);
  EXPECT_EQ(ends[1], HUGE_VALF);
  EXPECT_TRUE(std::isnan(ends[2]));
}

TEST(InPlaceMembers, ReturnTheTensorAndCheckIt) {
  const Tensor x = tensor({4.f, 9.f}), whole = tensor<int64_t>({2, 3});
  EXPECT_TRUE(x.sqrt_().is_same(x));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(whole.neg_().pow_(2).to_vector<int64_t>(), (std::vector<int64_t>{4, 9}));
  EXPECT_EQ(error_of([&] { whole.pow_(-1); }),
            "pow_: integers have no negative powers: got -1, expected 0 or more");
  EXPECT_EQ(error_of([&] { whole.exp_(); }),
            "exp_: the result's dtype does not fit in place: got int64, expected float32");
  EXPECT_EQ(error_of([&] { x.clamp_({}, {}); }),
            "clamp_: no bound: got none, expected low, high or both");
  const std::string no_bound = "clamp: no bound: got none, expected low, high or both";
  EXPECT_EQ(error_of([&] { clamp(x, {}, {}); }), no_bound);
  EXPECT_EQ(error_of([&] { clamp(x, std::nullopt, std::nullopt); }), no_bound);
  EXPECT_EQ(error_of([&] { clamp(x, Tensor(), {}); }), no_bound);
  EXPECT_EQ(tensor({5.f}).sub_(tensor({1.f}), 3).item(), 2);
}

// --- Comparing whole tensors --------------------------------------------------------------------

TEST(Equal, ComparesShapesAndElements) {
  const Tensor x = tensor({1.f, 2.f});
  EXPECT_TRUE(equal(x, x.clone()));
  EXPECT_FALSE(equal(x, tensor({1.f, 3.f})));
  EXPECT_FALSE(equal(x, x.reshape({1, 2})));
  EXPECT_FALSE(equal(ones({2}), ones({1})));
  EXPECT_FALSE(equal(tensor({NAN}), tensor({NAN})));
  EXPECT_TRUE(equal(zeros({0}), zeros({0})));
}

TEST(Allclose, MeasuresAgainstTheSecond) {
  const Tensor y = tensor({1.0, 100.0});
  EXPECT_TRUE(allclose(y * (1 + 0.9e-5), y));
  EXPECT_FALSE(allclose(y * (1 + 1.1e-5), y));
  EXPECT_TRUE(y.allclose(y + 0.5, 0, 0.51));
  EXPECT_FALSE(y.allclose(y + 0.5, 0, 0.49));
}

TEST(Allclose, KnowsInfinitiesAndNan) {
  const Tensor inf = tensor({double{INFINITY}}), nan = tensor({double{NAN}});
  EXPECT_TRUE(allclose(inf, inf));
  EXPECT_FALSE(allclose(inf, -inf));
  EXPECT_FALSE(allclose(ones({1}, kFloat64), inf));
  EXPECT_FALSE(allclose(inf, ones({1}, kFloat64)));
  EXPECT_FALSE(allclose(nan, nan));
  EXPECT_TRUE(allclose(nan, nan, 1e-5, 1e-8, true));
  EXPECT_FALSE(allclose(nan, inf, 1e-5, 1e-8, true));
}

// --- Matrices -----------------------------------------------------------------------------------

WICK_OP_CASE(
    dot,
    .samples = {{normal({5}), normal({5})},
                {normal({1}), normal({1})},
                {normal({0}), normal({0})},
                {normal({1025}), normal({1025})}},
    .call = [](const Tensors& x) -> Tensors { return {dot(x[0], x[1])}; },
    .composed = [](const Tensors& x) -> Tensors { return {sum(x[0] * x[1])}; },
    .tolerance = Tolerance::matmul(), .second_order = true,
    .flops = [](const Tensors& x) { return 2.0 * static_cast<double>(x[0].numel()); });
// Terms of one sign: in half types each is rounded before the sum.
Input some(const Shape& shape) { return uniform(shape, 0.5, 2); }
Input less(const Shape& shape) { return uniform(shape, -2, -0.5); }
WICK_OP_CASE(
    addmm,
    .samples = {{some({4}), less({3, 5}), some({5, 4})},
                {some({31, 33}), less({31, 7}), some({7, 33})},
                {some({2, 1}), less({2, 0}), some({0, 3})}},
    .call = [](const Tensors& x) -> Tensors { return {addmm(x[0], x[1], x[2], 3, -2)}; },
    .composed = [](const Tensors& x) -> Tensors { return {x[0] * 3 - matmul(x[1], x[2]) * 2}; },
    .tolerance = Tolerance::matmul(), .second_order = true);

TEST(MatrixFunctions, AreMatmulWithRanksChecked) {
  const Tensor a = arange(6, kFloat32).reshape({2, 3}), b = arange(12, kFloat32).reshape({3, 4});
  EXPECT_TRUE(equal(mm(a, b), matmul(a, b)));
  EXPECT_TRUE(equal(bmm(a.unsqueeze(0), b.unsqueeze(0)), matmul(a, b).unsqueeze(0)));
  EXPECT_TRUE(equal(addmm(ones({4}), a, b, 3, 2), matmul(a, b) * 2 + 3));
  EXPECT_TRUE(equal(addmm(ones({4}), a, b), matmul(a, b) + 1));
  EXPECT_EQ(dot(a[0], a[1]).item(), 14);
  EXPECT_TRUE(equal(outer(a[1], a[0]),
                    tensor({0.f, 3.f, 6.f, 0.f, 4.f, 8.f, 0.f, 5.f, 10.f}, Shape{3, 3})));
  EXPECT_EQ(error_of([&] { mm(a, b.unsqueeze(0)); }),
            "mm: wrong number of axes: got shapes [2, 3] and [1, 3, 4], expected 2 axes each");
  EXPECT_EQ(error_of([&] {
              bmm(ones({2, 2, 3}), ones({1, 3, 4}));
            }),
            "bmm: batch sizes differ: got [2, 2, 3] and [1, 3, 4], expected equal first sizes");
  EXPECT_THROW(dot(a, b), Error);
  EXPECT_THROW(outer(a, b), Error);
}

// --- Making tensors -----------------------------------------------------------------------------

TEST(Making, Arange) {
  EXPECT_EQ(arange(3).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(arange(2.5).to_vector<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(arange(0, 1, 0.5).to_vector<float>(), (std::vector<float>{0, 0.5}));
  EXPECT_EQ(arange(2, kFloat64).to_vector<double>(), (std::vector<double>{0, 1}));
  EXPECT_NE(error_of([] { arange(0, 1, 0.5, kInt64); }).find("got int64"), std::string::npos);
}

TEST(Making, Linspace) {
  EXPECT_EQ(linspace(-1, 1, 5).to_vector<float>(), (std::vector<float>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(linspace(3, 1, 2, kInt64).to_vector<int64_t>(), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(linspace(-3.7, 2.9, 5, kInt64).to_vector<int64_t>(),
            (std::vector<int64_t>{-3, -1, 0, 0, 2}));
  EXPECT_EQ(logspace(4.3, 1, 2, 10, kInt64).to_vector<int64_t>(),
            (std::vector<int64_t>{10000, 10}));
  EXPECT_EQ(linspace(2, 9, 1).to_vector<float>(), (std::vector<float>{2}));
  EXPECT_EQ(linspace(2, 9, 0).numel(), 0);
  EXPECT_EQ(linspace(0, 0.1, 1000, kFloat64).to_vector<double>().back(), 0.1);
  EXPECT_THROW(linspace(0, 1, -1), Error);
}

TEST(Making, Eye) {
  EXPECT_TRUE(equal(eye(2), tensor({1.f, 0.f, 0.f, 1.f}, Shape{2, 2})));
  EXPECT_EQ(eye(2, 3, kInt64).to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(eye(0).shape(), (Shape{0, 0}));
}

TEST(Making, Like) {
  const Tensor like = ones({3, 2}, kFloat64).t();
  const Tensor full = full_like(like, 7);
  EXPECT_EQ(full.shape(), (Shape{2, 3}));
  EXPECT_EQ(full.dtype(), kFloat64);
  EXPECT_TRUE((full == 7).all().item<bool>());
  Generator one(5), two(5);
  EXPECT_TRUE(equal(rand_like(like, &one), rand({2, 3}, kFloat64, kCpu, &two)));
  EXPECT_TRUE(equal(randn_like(like, &one), randn({2, 3}, kFloat64, kCpu, &two)));
}

// --- Axes ---------------------------------------------------------------------------------------

TEST(Movedim, PutsAxesInPlaces) {
  const Tensor x = zeros({2, 3, 4, 5});
  EXPECT_EQ(movedim(x, 1, -1).shape(), (Shape{2, 4, 5, 3}));
  EXPECT_EQ(movedim(x, -1, 0).shape(), (Shape{5, 2, 3, 4}));
  EXPECT_EQ(x.movedim({0, 1}, {2, 0}).shape(), (Shape{3, 4, 2, 5}));
  EXPECT_EQ(error_of([&] {
              movedim(x, {0, 0}, {1, 2});
            }),
            "movedim: an axis comes twice: got [0, 0] to [1, 2], expected each at most once");
  EXPECT_THROW(movedim(x, {0, 1}, {1, -3}), Error);
  EXPECT_THROW(movedim(x, {0, 1}, 1), Error);
  EXPECT_THROW(movedim(x, 4, 1), Error);
}

TEST(Meshgrid, RepeatsEachAlongTheOthers) {
  const auto grid = meshgrid({arange(2), arange(3), tensor<int64_t>({7})});
  ASSERT_EQ(grid.size(), 3u);
  EXPECT_EQ(grid[0].shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(grid[0].to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(grid[1].to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(grid[2].to_vector<int64_t>(), std::vector<int64_t>(6, 7));
  EXPECT_THROW(meshgrid({ones({2, 2})}), Error);
}

TEST(Unbind, TakesAnAxisApart) {
  const auto rows = arange(6).reshape({2, 3}).unbind(1);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2].to_vector<int64_t>(), (std::vector<int64_t>{2, 5}));
  EXPECT_TRUE(zeros({0, 3}).unbind().empty());
  EXPECT_THROW(zeros({}).unbind(), Error);
}

TEST(MaxAlongAnAxis, GivesValuesPositionsAndOneGradient) {
  const Tensor x = tensor({1.0, 3.0, 3.0, 5.0, 4.0, 2.0}, Shape{2, 3}).set_requires_grad();
  const auto [values, indices] = x.max(1);
  EXPECT_EQ(values.to_vector<double>(), (std::vector<double>{3, 5}));
  EXPECT_EQ(indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 0}));
  values.sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 1, 0, 1, 0, 0}));
  const Sorted least = min(x, 0, true);
  EXPECT_EQ(least.values.shape(), (Shape{1, 3}));
  EXPECT_EQ(least.indices.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(x.max().item(), 5);
  EXPECT_EQ(x.min().item(), 1);
  const Tensor one = scalar_tensor(2);
  EXPECT_EQ(one.max(0).values.item(), 2);
  EXPECT_NE(one.max(0).values.raw_data(), one.raw_data());
  EXPECT_TRUE(std::isnan(tensor({1.f, NAN}).max(0).values.item()));
}

WICK_OP_CASE(
    cross, .samples = {{normal({4, 3}), normal({4, 3})}, {normal({1, 3}), normal({2, 3})}},
    .call = [](const Tensors& x) -> Tensors { return {cross(x[0], x[1])}; },
    .reference = [](const Arrays& in) -> Arrays {
      const int64_t rows = std::max(in[0].shape[0], in[1].shape[0]);
      HostArray y = filled({rows, 3});
      for_each_coordinate(y.shape, [&](const Shape& c) {
        const auto of = [&](const HostArray& v, int64_t i) {
          return at(v, {c[0] % v.shape[0], (c[1] + i) % 3});
        };
        at(y, c) = of(in[0], 1) * of(in[1], 2) - of(in[0], 2) * of(in[1], 1);
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    renorm, .samples = {{normal({3, 4})}},
    .call = [](const Tensors& x) -> Tensors { return {renorm(x[0], 2, 0, 1.5)}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = in[0];
      for (int64_t row = 0; row < 3; ++row) {
        double squares = 0;
        for (int64_t i = 0; i < 4; ++i) squares += at(y, {row, i}) * at(y, {row, i});
        const double norm = std::sqrt(squares);
        for (int64_t i = 0; i < 4; ++i) at(y, {row, i}) *= norm > 1.5 ? 1.5 / (norm + 1e-7) : 1;
      }
      return {y};
    },
    .tolerance = Tolerance::reduction());

TEST(Functions, OfVectorsAndMatrices) {
  for (const Device device : devices()) {
    const Tensor a = tensor<double>({3, 4}).to(device);
    EXPECT_EQ(vdot(a, a).item(), 25);
    const Tensor ones3 = ones({3, 2, 2}, kFloat64, device);
    EXPECT_EQ(addbmm(ones({2, 2}, kFloat64, device), ones3, ones3, 2, 0.5).sum().item(), 20);
    EXPECT_EQ(msort(tensor<int64_t>({3, 1, 2}).to(device)).cpu().to_vector<int64_t>(),
              (std::vector<int64_t>{1, 2, 3}));
    EXPECT_EQ(tril_indices(2, 3, 0, device).cpu().to_vector<int64_t>(),
              (std::vector<int64_t>{0, 1, 1, 0, 0, 1}));
    EXPECT_EQ(triu_indices(3, 2, 1, device).cpu().to_vector<int64_t>(),
              (std::vector<int64_t>{0, 1}));
    EXPECT_EQ(logspace(0, 2, 3, 10, kFloat32, device).cpu().to_vector<float>(),
              (std::vector<float>{1, 10, 100}));
    EXPECT_TRUE(allclose(softmin(a, 0), softmax(-a, 0)));
  }
  EXPECT_EQ(error_of([] { cross(zeros({2}), zeros({2})); }),
            "cross: sizes along axis -1: got 2 and 2, expected 3");
}

}  // namespace
}  // namespace wick::testing
