#include "wick/core/ops/elementwise.h"

#include <gtest/gtest.h>

#include <bit>

#include "wick/tests/core/ops/elementwise_cases.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

// --- Of one tensor ------------------------------------------------------------------------------

WICK_OP_CASE(neg, .samples = unary_samples(), .call = call_of(neg),
             .reference = elementwise([](double x) { return -x; }), .second_order = true);
WICK_OP_CASE(abs, .samples = unary_samples(-2, 2, {0}), .call = call_of(abs),
             .reference = elementwise(std::fabs), .second_order = true);
WICK_OP_CASE(square, .samples = unary_samples(), .call = call_of(square),
             .reference = elementwise([](double x) { return x * x; }), .second_order = true);
WICK_OP_CASE(sign, .samples = unary_samples(-2, 2, {0}), .call = call_of(sign),
             .reference = elementwise([](double x) { return x > 0   ? 1.0
                                                            : x < 0 ? -1.0
                                                                    : 0.0; }),
             .second_order = true);
WICK_OP_CASE(exp, .samples = unary_samples(), .call = call_of(exp),
             .reference = elementwise(std::exp), .second_order = true);
WICK_OP_CASE(expm1, .samples = unary_samples(), .call = call_of(expm1),
             .reference = elementwise(std::expm1), .second_order = true);
WICK_OP_CASE(log, .samples = unary_samples(0.1, 3), .call = call_of(log),
             .reference = elementwise(std::log), .second_order = true);
WICK_OP_CASE(log1p, .samples = unary_samples(-0.9, 3), .call = call_of(log1p),
             .reference = elementwise(std::log1p), .second_order = true);
WICK_OP_CASE(sqrt, .samples = unary_samples(0.1, 3), .call = call_of(sqrt),
             .reference = elementwise(std::sqrt), .second_order = true);
WICK_OP_CASE(rsqrt, .samples = unary_samples(0.1, 3), .call = call_of(rsqrt),
             .reference = elementwise([](double x) { return 1 / std::sqrt(x); }),
             .second_order = true);
WICK_OP_CASE(reciprocal, .samples = unary_samples(0.2, 3), .call = call_of(reciprocal),
             .reference = elementwise([](double x) { return 1 / x; }), .second_order = true);
WICK_OP_CASE(sin, .samples = unary_samples(-9, 9), .call = call_of(sin),
             .reference = elementwise(std::sin), .second_order = true);
WICK_OP_CASE(cos, .samples = unary_samples(-9, 9), .call = call_of(cos),
             .reference = elementwise(std::cos), .second_order = true);
WICK_OP_CASE(erf, .samples = unary_samples(), .call = call_of(erf),
             .reference = elementwise(std::erf), .second_order = true);
WICK_OP_CASE(tanh, .samples = unary_samples(), .call = call_of(tanh),
             .reference = elementwise(std::tanh), .second_order = true);
WICK_OP_CASE(sigmoid, .samples = unary_samples(), .call = call_of(sigmoid),
             .reference = elementwise([](double x) { return 1 / (1 + std::exp(-x)); }),
             .second_order = true);
WICK_OP_CASE(floor, .samples = unary_samples(-3, 3, {-2, -1, 0, 1, 2}), .call = call_of(floor),
             .reference = elementwise(std::floor), .second_order = true);
WICK_OP_CASE(ceil, .samples = unary_samples(-3, 3, {-2, -1, 0, 1, 2}), .call = call_of(ceil),
             .reference = elementwise(std::ceil), .second_order = true);
WICK_OP_CASE(round, .samples = unary_samples(-2, 2, {-1.5, -0.5, 0.5, 1.5}), .call = call_of(round),
             .reference = elementwise(std::nearbyint), .second_order = true);
WICK_OP_CASE(trunc, .samples = unary_samples(-3, 3, {-2, -1, 0, 1, 2}), .call = call_of(trunc),
             .reference = elementwise(std::trunc), .second_order = true);

// --- With a number ------------------------------------------------------------------------------

WICK_OP_CASE(
    add_scalar, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {x[0] + 1.5}; },
    .reference = elementwise([](double x) { return x + 1.5; }), .second_order = true);
WICK_OP_CASE(
    sub_scalar, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {x[0] - 2}; },
    .reference = elementwise([](double x) { return x - 2; }), .second_order = true);
WICK_OP_CASE(
    sub_from_scalar, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {0.5 - x[0]}; },
    .reference = elementwise([](double x) { return 0.5 - x; }), .second_order = true);
WICK_OP_CASE(
    mul_scalar, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {-2.5 * x[0]}; },
    .reference = elementwise([](double x) { return -2.5 * x; }), .second_order = true);
WICK_OP_CASE(
    div_scalar, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {x[0] / 3}; },
    .reference = elementwise([](double x) { return x / 3; }), .second_order = true);
WICK_OP_CASE(
    div_scalar_by, .samples = unary_samples(0.3, 3),
    .call = [](const Tensors& x) -> Tensors { return {3 / x[0]}; },
    .reference = elementwise([](double x) { return 3 / x; }), .second_order = true);
WICK_OP_CASE(
    pow_scalar, .samples = unary_samples(0.2, 2),
    .call = [](const Tensors& x) -> Tensors {
      return {pow(x[0], 2.5), pow(x[0], 0)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      Arrays y = {x[0], x[0]};
      for (double& v : y[0].values) v = std::pow(v, 2.5);
      for (double& v : y[1].values) v = 1;
      return y;
    },
    .second_order = true);
WICK_OP_CASE(
    pow_minus_half, .samples = unary_samples(0.2, 2),
    .call = [](const Tensors& x) -> Tensors { return {pow(x[0], -0.5)}; },
    .reference = elementwise([](double x) { return 1 / std::sqrt(x); }), .second_order = true);
WICK_OP_CASE(
    pow_of_negative, .samples = unary_samples(-2, 2, {0}),
    .call = [](const Tensors& x) -> Tensors { return {pow(x[0], 3)}; },
    .reference = elementwise([](double x) { return x * x * x; }), .second_order = true);

// --- Of two tensors -----------------------------------------------------------------------------

WICK_OP_CASE(add, .samples = binary_samples(),
             .call = call_of([](const Tensor& x, const Tensor& y) { return add(x, y); }),
             .reference = elementwise([](double x, double y) { return x + y; }),
             .second_order = true);
WICK_OP_CASE(
    add_scaled, .samples = binary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {add(x[0], x[1], -1.5)}; },
    .reference = elementwise([](double x, double y) { return x - 1.5 * y; }), .second_order = true);
WICK_OP_CASE(
    sub, .samples = binary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {x[0] - x[1]}; },
    .reference = elementwise([](double x, double y) { return x - y; }), .second_order = true);
WICK_OP_CASE(
    mul, .samples = binary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {x[0] * x[1]}; },
    .reference = elementwise([](double x, double y) { return x * y; }), .second_order = true);
WICK_OP_CASE(
    div, .samples = binary_samples(0.3, 3),
    .call = [](const Tensors& x) -> Tensors { return {x[0] / x[1]}; },
    .reference = elementwise([](double x, double y) { return x / y; }), .second_order = true);
// Powers and derivatives near the largest float16 there is.
Samples with_large_powers(Samples samples) {
  samples.push_back({uniform({31}, 4, 6), uniform({31}, 5, 6)});
  samples.push_back({uniform({31}, 0.01, 0.03), uniform({31}, -2.5, -1.5)});
  return samples;
}
WICK_OP_CASE(
    pow, .samples = with_large_powers(binary_samples(0.3, 2)),
    .call = [](const Tensors& x) -> Tensors { return {pow(x[0], x[1])}; },
    .reference = elementwise([](double x, double y) { return std::pow(x, y); }),
    .second_order = true);

WICK_OP_CASE(
    addc,
    .samples = {{uniform({31}, -2, 2), uniform({31}, -2, 2), uniform({31}, 0.5, 2)},
                {uniform({3, 1}, -2, 2), uniform({5}, -2, 2), uniform({}, 0.5, 2)},
                {uniform({}, -2, 2), uniform({300}, -2, 2), uniform({2, 1}, 0.5, 2)}},
    .call = [](const Tensors& x) -> Tensors {
      return {addcmul(x[0], x[1], x[2], -2.5), addcdiv(x[0], x[1], x[2], 0.3)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      return {x[0] - 2.5 * x[1] * x[2], x[0] + 0.3 * x[1] / x[2]};
    },
    .second_order = true);
WICK_OP_CASE(
    lerp,
    .samples = {{uniform({31}, -2, 2), uniform({31}, -2, 2),
                 uniform({31}, -2, 2).avoiding({-0.5, 0.5})},
                {uniform({3, 1}, -2, 2), uniform({5}, -2, 2), uniform({}, 0.1, 0.3)}},
    .call = [](const Tensors& x) -> Tensors {
      return {lerp(x[0], x[1], x[2]), lerp(x[0], x[1], 0.25), lerp(x[0], x[1], 0.75)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      const Tensor way = x[1] - x[0];
      return {x[0] + x[2] * way, x[0] + 0.25 * way, x[0] + 0.75 * way};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

// Far from ties, in every dtype.
Samples distinct_pairs() {
  return {{distinct({31}), uniform({31})},
          {distinct({33, 1}), uniform({1, 7})},
          {distinct({2, 3, 4, 5}), uniform({})},
          {distinct({0, 3}), uniform({1, 3})}};
}
WICK_OP_CASE(maximum, .samples = distinct_pairs(), .call = call_of(maximum),
             .reference = elementwise([](double x, double y) { return x > y ? x : y; }),
             .second_order = true);
WICK_OP_CASE(minimum, .samples = distinct_pairs(), .call = call_of(minimum),
             .reference = elementwise([](double x, double y) { return x < y ? x : y; }),
             .second_order = true);

// --- In place -----------------------------------------------------------------------------------

// `x.clone()` changed by `change`.
TensorFunction in_place(void (*change)(const Tensor& x, const Tensor& y)) {
  return [change](const Tensors& x) -> Tensors {
    const Tensor y = x[0] * 1.0;
    change(y, x.back());
    return {y};
  };
}

// Second inputs that broadcast to the first.
Samples in_place_samples(double low, double high) {
  return {{uniform({31}, low, high), uniform({31}, low, high)},
          {uniform({5, 33}, low, high), uniform({33}, low, high)},
          {uniform({2, 3, 4, 5}, low, high), uniform({3, 1, 1}, low, high)},
          {uniform({0, 3}, low, high), uniform({1, 3}, low, high)},
          {uniform({}, low, high), uniform({}, low, high)}};
}

WICK_OP_CASE(add_in_place, .samples = in_place_samples(-2, 2),
             .call = in_place([](const Tensor& x, const Tensor& y) { x.add_(y, 2); }),
             .reference = elementwise([](double x, double y) { return x + 2 * y; }),
             .second_order = true);
WICK_OP_CASE(sub_in_place, .samples = in_place_samples(-2, 2),
             .call = in_place([](const Tensor& x, const Tensor& y) { x.sub_(y); }),
             .reference = elementwise([](double x, double y) { return x - y; }),
             .second_order = true);
WICK_OP_CASE(mul_in_place, .samples = in_place_samples(-2, 2),
             .call = in_place([](const Tensor& x, const Tensor& y) { x.mul_(y); }),
             .reference = elementwise([](double x, double y) { return x * y; }),
             .second_order = true);
WICK_OP_CASE(div_in_place, .samples = in_place_samples(0.5, 3),
             .call = in_place([](const Tensor& x, const Tensor& y) { x.div_(y); }),
             .reference = elementwise([](double x, double y) { return x / y; }),
             .second_order = true);
WICK_OP_CASE(numbers_in_place, .samples = unary_samples(),
             .call = in_place([](const Tensor& x, const Tensor&) {
               x.add_(1).mul_(3).sub_(0.5).div_(2);
             }),
             .reference = elementwise([](double x) { return ((x + 1) * 3 - 0.5) / 2; }),
             .tolerance = {.factor = 8, .floor = 4}, .second_order = true);

TEST(ElementwiseInPlace, MultipliesByItself) {
  const Tensor x = tensor<double>({2, 3});
  x.set_requires_grad();
  const Tensor y = x * 1.0;
  y.mul_(y);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{4, 9}));
  y.backward(ones_like(y.detach()));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{4, 6}));
}

TEST(ElementwiseInPlace, ReadsOverlappingMemoryAsItWas) {
  const Tensor x = arange(0, 5);
  x.narrow(0, 1, 4).add_(x.narrow(0, 0, 4));
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 3, 5, 7}));
}

TEST(ElementwiseInPlace, RejectsWhatDoesNotFit) {
  const Tensor x = zeros({2}), whole = arange(0, 2);
  EXPECT_NE(error_of([&] {
              x.add_(zeros({3, 2}));
            }).find("got shape [2], expected [3, 2]"),
            std::string::npos);
  EXPECT_NE(error_of([&] { whole.add_(x); }).find("got int64, expected float32"),
            std::string::npos);
  EXPECT_NE(error_of([&] { whole.mul_(0.5); }).find("got int64, expected float32"),
            std::string::npos);
  EXPECT_NE(error_of([&] { whole.div_(2); }).find("got int64, expected float32"),
            std::string::npos);
  EXPECT_NE(error_of([&] { zeros({1}).expand({4}).add_(1); }).find("share one place"),
            std::string::npos);
}

// --- Dtypes -------------------------------------------------------------------------------------

TEST(ElementwiseDtypes, PromoteAsPyTorch) {
  const auto of = [](Dtype dtype, const Shape& shape = {1}) { return zeros(shape, dtype); };
  const auto sum = [&](const Tensor& a, const Tensor& b) { return (a + b).dtype(); };
  EXPECT_EQ(sum(of(kFloat16), of(kBFloat16)), kFloat32);
  EXPECT_EQ(sum(of(kBFloat16), of(kInt64)), kBFloat16);
  EXPECT_EQ(sum(of(kUint8), of(kInt32)), kInt32);
  EXPECT_EQ(sum(of(kBool), of(kUint8)), kUint8);
  EXPECT_EQ(sum(of(kBool), of(kBool)), kBool);
  // Rank 0 does not widen its own kind, but a higher kind counts.
  EXPECT_EQ(sum(of(kFloat32), of(kFloat64, {})), kFloat32);
  EXPECT_EQ(sum(of(kFloat64, {}), of(kFloat32)), kFloat32);
  EXPECT_EQ(sum(of(kInt32), of(kInt64, {})), kInt32);
  EXPECT_EQ(sum(of(kInt32), of(kFloat64, {})), kFloat64);
  EXPECT_EQ(sum(of(kFloat32, {}), of(kFloat64, {})), kFloat64);
  // Numbers.
  EXPECT_EQ((of(kFloat16) + 1.5).dtype(), kFloat16);
  EXPECT_EQ((of(kUint8) + 1).dtype(), kUint8);
  EXPECT_EQ((of(kInt64) * 1.5).dtype(), kFloat32);
  EXPECT_EQ((of(kBool) + 1).dtype(), kInt64);
  EXPECT_EQ((of(kInt64) / 2).dtype(), kFloat32);
  EXPECT_EQ((of(kInt32) / of(kInt32)).dtype(), kFloat32);
  EXPECT_EQ(exp(of(kInt64)).dtype(), kFloat32);
  EXPECT_EQ(pow(of(kInt64), 2).dtype(), kInt64);
  EXPECT_EQ(pow(of(kBool), 2).dtype(), kInt64);
  EXPECT_EQ(pow(of(kInt64), 2.0).dtype(), kFloat32);
  EXPECT_EQ(pow(of(kBool), 2.0).dtype(), kFloat32);
  EXPECT_EQ(pow(tensor<int64_t>({3}), 2.0).item<float>(), 9);
  EXPECT_EQ(pow(of(kInt64), 0.5).dtype(), kFloat32);
}

TEST(ElementwiseDtypes, GradientsHaveTheInputsDtypes) {
  const Tensor x = ones({2, 3}, kBFloat16).set_requires_grad();
  const Tensor y = full({3}, 2, kFloat64).set_requires_grad();
  (x * y).backward(ones({2, 3}, kFloat64));
  EXPECT_EQ(x.grad().dtype(), kBFloat16);
  EXPECT_EQ(x.grad().to_vector<BFloat16>()[5], 2.0f);
  EXPECT_EQ(y.grad().dtype(), kFloat64);
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{2, 2, 2}));
}

TEST(ElementwiseDtypes, IntegersAreExact) {
  const int64_t big = (int64_t{1} << 53) + 1;
  EXPECT_EQ((tensor<int64_t>({big}) + 1).to_vector<int64_t>()[0], big + 1);
  EXPECT_EQ((tensor<int64_t>({big}) * 3 - 1).to_vector<int64_t>()[0], big * 3 - 1);
  EXPECT_EQ(pow(tensor<int64_t>({3, -2, 0}), 3).to_vector<int64_t>(),
            (std::vector<int64_t>{27, -8, 0}));
  EXPECT_EQ(pow(tensor<int64_t>({2, 2, -1}), tensor<int64_t>({62, -1, -3})).to_vector<int64_t>(),
            (std::vector<int64_t>{int64_t{1} << 62, 0, -1}));
  // What does not fit wraps.
  const Tensor most = tensor<int64_t>({INT64_MAX});
  EXPECT_EQ((most + 1).to_vector<int64_t>()[0], INT64_MIN);
  EXPECT_EQ((most * most).to_vector<int64_t>()[0], 1);
  EXPECT_EQ(abs(most + 1).to_vector<int64_t>()[0], INT64_MIN);
  EXPECT_EQ((tensor<uint8_t>({250}) + 10).to_vector<uint8_t>()[0], 4);
  EXPECT_EQ(maximum(tensor<int32_t>({-3, 4}), tensor<int32_t>({2, 2})).to_vector<int32_t>(),
            (std::vector<int32_t>{2, 4}));
  EXPECT_EQ(
      (tensor<bool>({true, true, false}) * tensor<bool>({true, false, false})).to_vector<bool>(),
      (std::vector<bool>{true, false, false}));
  EXPECT_EQ((tensor<int64_t>({7}) / 2).to_vector<float>()[0], 3.5f);
}

TEST(ElementwiseDtypes, OfThreeTensors) {
  const Tensor whole = tensor<int64_t>({1, 2}), half = ones({2}, kFloat16);
  EXPECT_EQ(addcmul(whole, whole, whole, 3).to_vector<int64_t>(), (std::vector<int64_t>{4, 14}));
  EXPECT_EQ(addcmul(half, half, ones({}, kFloat32)).dtype(), kFloat16);
  EXPECT_EQ(addcmul(half, half, ones({1}, kFloat32)).dtype(), kFloat32);
  EXPECT_EQ(addcdiv(whole, half, half).dtype(), kFloat16);
  EXPECT_THROW(addcmul(whole, whole, whole, 0.5), Error);
  EXPECT_THROW(addcdiv(half, whole, whole), Error);
  EXPECT_THROW(lerp(whole, whole, 0.5), Error);
  EXPECT_THROW(lerp(half, ones({2}), 0.5), Error);
  const Tensor x = tensor<float>({1e-8f, 3}), end = tensor<float>({1, -0.1f});
  EXPECT_EQ(lerp(x, end, 0).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(lerp(x, end, 1).to_vector<float>(), end.to_vector<float>());
}

TEST(ElementwiseDtypes, RejectsWhatHasNoMeaning) {
  const Tensor truth = tensor<bool>({true}), whole = tensor<int64_t>({1});
  EXPECT_NE(error_of([&] { sub(truth, truth); }).find("not defined on bool"), std::string::npos);
  EXPECT_NE(error_of([&] { -truth; }).find("not defined on bool"), std::string::npos);
  EXPECT_NE(error_of([&] { pow(whole, -1); }).find("negative powers: got -1"), std::string::npos);
  EXPECT_NE(error_of([&] { add(whole, whole, 0.5); }).find("alpha"), std::string::npos);
  EXPECT_NE(error_of([&] {
              add(zeros({2, 3}), zeros({4}));
            }).find("got [2, 3] and [4]"),
            std::string::npos);
}

// --- Corners ------------------------------------------------------------------------------------

constexpr double kNan = NAN;

// The gradient of `function` at `x`.
std::vector<double> gradient_at(const std::function<Tensor(const Tensor&)>& function,
                                std::initializer_list<double> x, bool create_graph = false) {
  const Tensor at = tensor<double>(x);
  at.set_requires_grad();
  const Tensor y = function(at);
  return grad({y}, {at}, {ones_like(y.detach())}, false, create_graph)[0].to_vector<double>();
}

TEST(ElementwiseCorners, TiesAndKinks) {
  for (const bool create_graph : {false, true}) {
    EXPECT_EQ(gradient_at([](const Tensor& x) { return abs(x); }, {-1, 0, 2}, create_graph),
              (std::vector<double>{-1, 0, 1}));
    const Tensor one = ones({3}, kFloat64);
    EXPECT_EQ(
        gradient_at([&](const Tensor& x) { return maximum(x, one); }, {0, 1, 2}, create_graph),
        (std::vector<double>{0, 0.5, 1}));
    EXPECT_EQ(
        gradient_at([&](const Tensor& x) { return minimum(one, x); }, {0, 1, 2}, create_graph),
        (std::vector<double>{1, 0.5, 0}));
  }
}

TEST(ElementwiseCorners, PowersOfZero) {
  // As PyTorch: the sign of 0 is seen.
  const Tensor zeros_of_both_signs = tensor<float>({0.0f, -0.0f});
  EXPECT_EQ(pow(zeros_of_both_signs, -0.5).to_vector<float>(),
            (std::vector<float>{INFINITY, -INFINITY}));
  EXPECT_EQ(zeros_of_both_signs.clone().pow_(-0.5).to_vector<float>(),
            (std::vector<float>{INFINITY, -INFINITY}));
  EXPECT_EQ(pow(zeros_of_both_signs, -1).to_vector<float>(),
            (std::vector<float>{INFINITY, -INFINITY}));
  // As PyTorch: no NaN from 0 * infinity where the power is constant.
  EXPECT_EQ(gradient_at([](const Tensor& x) { return pow(x, 0); }, {0, 2}),
            (std::vector<double>{0, 0}));
  const Tensor zero = zeros({2}, kFloat64);
  EXPECT_EQ(gradient_at([&](const Tensor& x) { return pow(x, zero); }, {0, 2}),
            (std::vector<double>{0, 0}));
  EXPECT_EQ(gradient_at([&](const Tensor& y) { return pow(zero, y); }, {0, 2}),
            (std::vector<double>{0, 0}));
  EXPECT_EQ(gradient_at([](const Tensor& x) { return pow(x, 1); }, {0}), (std::vector<double>{1}));
}

template <class T>
void expect_nan_passes(Dtype dtype) {
  const Tensor x = tensor<double>({kNan, 1, kNan}).to(dtype);
  const Tensor y = tensor<double>({1, kNan, kNan}).to(dtype);
  for (const Tensor& z : {maximum(x, y), minimum(x, y), x + y, x * y}) {
    for (const T value : z.template to_vector<T>()) {
      EXPECT_TRUE(std::isnan(static_cast<float>(value)));
    }
  }
}
TEST(ElementwiseCorners, NanPasses) {
  expect_nan_passes<float>(kFloat32);
  expect_nan_passes<double>(kFloat64);
  expect_nan_passes<Half>(kFloat16);
}

// Each function at the ends of float's range, against the C library in double.
TEST(ElementwiseCorners, FloatsAreAccurateOverTheirRange) {
  struct Function {
    const char* name;
    Tensor (*ours)(const Tensor&);
    double (*theirs)(double);
  };
  const Function functions[] = {
      {"exp", exp, std::exp},       {"expm1", expm1, std::expm1}, {"log", log, std::log},
      {"log1p", log1p, std::log1p}, {"tanh", tanh, std::tanh},    {"erf", erf, std::erf},
      {"sin", sin, std::sin},       {"cos", cos, std::cos},       {"sqrt", sqrt, std::sqrt}};
  std::vector<float> x = {0.0f,      -0.0f, 1.0f,  -1.0f,   INFINITY,
                          -INFINITY, NAN,   88.9f, -103.5f, -104.0f};
  // Every 1000003rd float, denormals among them.
  for (uint64_t bits = 1; bits < uint64_t{1} << 32; bits += 1000003) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (const Function& f : functions) {
    const std::vector<float> y = f.ours(tensor(x)).to_vector<float>();
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = f.theirs(x[i]);
      const auto nearest = static_cast<float>(want);
      if (std::isnan(nearest)) {
        ASSERT_TRUE(std::isnan(y[i])) << f.name << "(" << x[i] << ") = " << y[i];
      } else if (std::isinf(nearest) || nearest == 0) {
        ASSERT_EQ(y[i], nearest) << f.name << "(" << x[i] << ")";
        ASSERT_EQ(std::signbit(y[i]), std::signbit(nearest)) << f.name << "(" << x[i] << ")";
      } else {
        ASSERT_NEAR(y[i], want, 3e-7 * std::fabs(want) + 2e-45) << f.name << "(" << x[i] << ")";
      }
    }
  }
}

// --- Layouts ------------------------------------------------------------------------------------

TEST(ElementwiseLayouts, FollowTheFirstInputOfTheResultsShape) {
  const Tensor x = arange(0, 120).reshape({2, 3, 4, 5}).to(kFloat32);
  const Tensor last = x.contiguous(MemoryFormat::kChannelsLast);
  const Tensor bias = ones({3, 1, 1});
  EXPECT_TRUE((last + bias).is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_TRUE((bias + last).is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_TRUE((last + x).is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_TRUE((x + last).is_contiguous());
  EXPECT_TRUE(exp(last).is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_EQ((x.permute({3, 0, 2, 1}) * 2).strides(), x.permute({3, 0, 2, 1}).strides());
  EXPECT_TRUE(exp(x.slice(3, 0, 5, 2)).is_contiguous());
}

TEST(ElementwiseLayouts, LargeResultsWithBroadcasting) {
  // Large enough for several threads and for stores past the caches.
  const Tensor x = arange(0, 1021 * 1031).reshape({1021, 1031}).to(kFloat32);
  const Tensor row = arange(0, 1031).to(kFloat32), column = arange(0, 1021).reshape({1021, 1});
  for (const Dtype dtype : {kFloat32, kFloat64, kInt64, kInt32}) {
    const Tensor sum = (x.to(dtype) + row.to(dtype) - column.to(dtype)).to(kInt64);
    const std::vector<int64_t> values = sum.to_vector<int64_t>();
    for (int64_t i = 0; i < sum.numel(); ++i) {
      ASSERT_EQ(values[static_cast<size_t>(i)], i + i % 1031 - i / 1031) << to_string(dtype);
    }
  }
  const std::vector<float> transposed = (x.t() + column.t().to(kFloat32)).to_vector<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const int64_t r = i % 1021, c = i / 1021;
    ASSERT_EQ(transposed[static_cast<size_t>(i)], static_cast<float>(r * 1031 + c + r));
  }
}

}  // namespace
}  // namespace wick::testing
