#include "wick/core/ops/special.h"

#include <gtest/gtest.h>

#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/random.h"
#include "wick/tests/core/ops/elementwise_cases.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

WICK_OP_CASE(exp2, .samples = unary_samples(), .call = call_of(exp2),
             .reference = elementwise(std::exp2), .second_order = true);
WICK_OP_CASE(log10, .samples = unary_samples(0.1, 9), .call = call_of(log10),
             .reference = elementwise(std::log10), .second_order = true);
WICK_OP_CASE(asin, .samples = unary_samples(-0.8, 0.8), .call = call_of(asin),
             .reference = elementwise(std::asin), .second_order = true);
WICK_OP_CASE(acos, .samples = unary_samples(-0.8, 0.8), .call = call_of(acos),
             .reference = elementwise(std::acos), .second_order = true);
WICK_OP_CASE(atan, .samples = unary_samples(), .call = call_of(atan),
             .reference = elementwise(std::atan), .second_order = true);
WICK_OP_CASE(sinh, .samples = unary_samples(), .call = call_of(sinh),
             .reference = elementwise(std::sinh), .second_order = true);
WICK_OP_CASE(cosh, .samples = unary_samples(), .call = call_of(cosh),
             .reference = elementwise(std::cosh), .second_order = true);
WICK_OP_CASE(asinh, .samples = unary_samples(), .call = call_of(asinh),
             .reference = elementwise(std::asinh), .second_order = true);
WICK_OP_CASE(acosh, .samples = unary_samples(1.2, 5), .call = call_of(acosh),
             .reference = elementwise(std::acosh), .second_order = true);
WICK_OP_CASE(atanh, .samples = unary_samples(-0.8, 0.8), .call = call_of(atanh),
             .reference = elementwise(std::atanh), .second_order = true);
WICK_OP_CASE(erfc, .samples = unary_samples(-2, 3), .call = call_of(erfc),
             .reference = elementwise(std::erfc), .second_order = true);
WICK_OP_CASE(erfinv, .samples = unary_samples(-0.75, 0.75), .call = call_of(erfinv),
             .reference = elementwise([](double x) {
               double low = -6, high = 6;  // by halving
               for (int i = 0; i < 100; ++i) {
                 const double middle = (low + high) / 2;
                 (std::erf(middle) < x ? low : high) = middle;
               }
               return low;
             }),
             .second_order = true);
WICK_OP_CASE(lgamma, .samples = unary_samples(0.3, 8), .call = call_of(lgamma),
             .reference = elementwise([](double x) { return std::lgamma(x); }),
             .second_order = true);

// By its series: the sum of 1 / (k + 1) - 1 / (k + x), less Euler's constant.
double slow_digamma(double x) {
  long double sum = -0.577215664901532860607L;
  constexpr int kTerms = 100000;
  for (int k = 0; k < kTerms; ++k) sum += 1.0L / (k + 1) - 1 / (k + static_cast<long double>(x));
  // What is left, by its integral.
  return static_cast<double>(sum + std::log((kTerms + x - 0.5L) / (kTerms + 0.5L)));
}
WICK_OP_CASE(digamma, .covers = {"trigamma"}, .samples = {{uniform({7}, 0.3, 8)}},
             .call = call_of(digamma), .reference = elementwise(slow_digamma),
             .tolerance = Tolerance::reduction());
WICK_OP_CASE(frac, .samples = unary_samples(-3, 3, {-3, -2, -1, 0, 1, 2, 3}), .call = call_of(frac),
             .reference = elementwise([](double x) { return x - std::trunc(x); }),
             .second_order = true);
WICK_OP_CASE(sinc, .samples = unary_samples(-3, 3), .call = call_of(sinc),
             .reference = elementwise([](double x) {
               return x == 0 ? 1 : std::sin(M_PI * x) / (M_PI * x);
             }),
             .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    logit, .samples = unary_samples(0.1, 0.9, {0.3, 0.7}),
    .call = [](const Tensors& x) -> Tensors {
      return {logit(x[0]), logit(x[0], 0.3)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray plain = x[0], kept = x[0];
      for (double& v : plain.values) v = std::log(v / (1 - v));
      for (double& v : kept.values) {
        v = std::min(std::max(v, 0.3), 0.7);
        v = std::log(v / (1 - v));
      }
      return {plain, kept};
    },
    .tolerance = Tolerance::reduction());
WICK_OP_CASE(
    round_decimals, .samples = {{distinct({31, 8})}},
    .call = [](const Tensors& x) -> Tensors {
      return {round(x[0] * 1.1, 1), round(x[0] * 11, -1), round(x[0], 0)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray tenths = x[0], tens = x[0], ones = x[0];
      for (double& v : tenths.values) v = std::rint(v * 1.1 * 10) / 10;
      for (double& v : tens.values) v = std::rint(v * 11 / 10) * 10;
      for (double& v : ones.values) v = std::rint(v);
      return {tenths, tens, ones};
    },
    .dtypes = {kFloat64}, .differentiable = false);
WICK_OP_CASE(
    degrees, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors {
      return {deg2rad(x[0]), rad2deg(x[0])};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {elementwise([](double v) { return v * M_PI / 180; })(x)[0],
              elementwise([](double v) { return v * 180 / M_PI; })(x)[0]};
    },
    .second_order = true);
WICK_OP_CASE(
    nan_to_num, .samples = unary_samples(),
    .call = [](const Tensors& x) -> Tensors { return {nan_to_num(x[0])}; },
    .reference = elementwise([](double x) { return x; }), .second_order = true);
WICK_OP_CASE(
    copysign, .samples = binary_samples(0.2, 2),
    .call = [](const Tensors& x) -> Tensors { return {copysign(x[0], -x[1])}; },
    .reference = elementwise([](double x, double y) { return std::copysign(x, -y); }),
    .second_order = true);
WICK_OP_CASE(hypot, .samples = binary_samples(0.2, 2), .call = call_of(hypot),
             .reference = elementwise([](double x, double y) { return std::hypot(x, y); }),
             .second_order = true);
WICK_OP_CASE(xlogy, .samples = binary_samples(0.2, 2), .call = call_of(xlogy),
             .reference = elementwise([](double x, double y) { return x * std::log(y); }),
             .second_order = true);
WICK_OP_CASE(logaddexp, .samples = binary_samples(), .call = call_of(logaddexp),
             .reference = elementwise([](double x, double y) {
               return std::log(std::exp(x) + std::exp(y));
             }),
             .second_order = true);
WICK_OP_CASE(logaddexp2, .samples = binary_samples(), .call = call_of(logaddexp2),
             .reference = elementwise([](double x, double y) {
               return std::log2(std::exp2(x) + std::exp2(y));
             }),
             .second_order = true);
WICK_OP_CASE(
    fmax_fmin, .samples = binary_samples(),
    .call = [](const Tensors& x) -> Tensors {
      return {fmax(x[0], x[1]), fmin(x[0], x[1])};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {elementwise([](double a, double b) { return std::fmax(a, b); })(x)[0],
              elementwise([](double a, double b) { return std::fmin(a, b); })(x)[0]};
    });
WICK_OP_CASE(
    clamp_by_tensors,
    .samples = {{uniform({31, 33}, -2, 2), uniform({33}, -1, -0.2), uniform({31, 1}, 0.2, 1)},
                {uniform({5}, -2, 2), uniform({}, -1, -0.2), uniform({}, 0.2, 1)}},
    .call = [](const Tensors& x) -> Tensors { return {clamp(x[0], x[1], x[2])}; },
    .composed = [](const Tensors& x) -> Tensors { return {minimum(maximum(x[0], x[1]), x[2])}; },
    .second_order = true);
WICK_OP_CASE(
    shifts, .covers = {"bitwise_left_shift", "bitwise_right_shift"},
    .samples = {{index({31, 33}, -900, 900), index({33}, 0, 20)},
                {index({}, 0, 9), index({}, 0, 9)}},
    .call = [](const Tensors& x) -> Tensors {
      return {bitwise_left_shift(x[0], x[1]), bitwise_right_shift(x[0], x[1])};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {elementwise([](double a, double b) { return a * std::exp2(b); })(x)[0],
              elementwise([](double a, double b) { return std::floor(a / std::exp2(b)); })(x)[0]};
    },
    .dtypes = {kFloat64}, .tolerance = Tolerance::exact(), .differentiable = false);

using Numbers = std::vector<double>;

TEST(Special, KnowsItsEdges) {
  const double inf = INFINITY;
  for (const Device device : devices()) {
    const auto of = [&](Tensor (*f)(const Tensor&), double x) {
      return f(tensor({x}).to(device)).item();
    };
    EXPECT_EQ(of(erfinv, 1), inf);
    EXPECT_EQ(of(erfinv, -1), -inf);
    EXPECT_TRUE(std::isnan(of(erfinv, 1.5)));
    EXPECT_NEAR(of(erfinv, 0.9999999), 3.7665625816384707, 1e-13);
    EXPECT_NEAR(of(erfinv, 1e-9), 8.86226925452758e-10, 1e-23);
    EXPECT_EQ(of(digamma, 0), -inf);
    EXPECT_TRUE(std::isnan(of(digamma, -2)));
    EXPECT_NEAR(of(digamma, -3.5), 1.3888709263595289, 1e-13);
    EXPECT_NEAR(of(digamma, -1e-10) / 1e10, 1, 1e-9);  // near 0 as -1 / x
    EXPECT_EQ(of(digamma, -1e-20), 1e20);
    EXPECT_NEAR(of(trigamma, -1e-10) / 1e20, 1, 1e-9);
    EXPECT_NEAR(of(trigamma, -0.5), 8.934802200544679, 1e-12);
    EXPECT_NEAR(of(trigamma, 2), M_PI * M_PI / 6 - 1, 1e-13);
    EXPECT_EQ(of(lgamma, 0), inf);
    EXPECT_EQ(of(sinc, 0), 1);
    const Tensor x = tensor({NAN, INFINITY, -INFINITY, 2.f}).to(device);
    EXPECT_EQ(nan_to_num(x).cpu().to_vector<float>(),
              (std::vector<float>{0, 3.402823466e38f, -3.402823466e38f, 2}));
    EXPECT_EQ(nan_to_num(x.to(kFloat16), 1, {}, 5).cpu().to(kFloat32).to_vector<float>(),
              (std::vector<float>{1, 65504, 5, 2}));
    EXPECT_EQ(isposinf(x).cpu().to(kInt64).to_vector<int64_t>(),
              (std::vector<int64_t>{0, 1, 0, 0}));
    EXPECT_EQ(isneginf(x).cpu().to(kInt64).to_vector<int64_t>(),
              (std::vector<int64_t>{0, 0, 1, 0}));
    EXPECT_EQ(logaddexp(tensor({-inf, inf, 1e4}).to(device), tensor({-inf, inf, 1e4}).to(device))
                  .cpu()
                  .to_vector<double>(),
              (Numbers{-inf, inf, 1e4 + std::log(2.0)}));
    EXPECT_EQ(hypot(tensor({3e300}).to(device), tensor({4e300}).to(device)).item(), 5e300);
    EXPECT_EQ(xlogy(tensor({0.0}).to(device), tensor({0.0}).to(device)).item(), 0);
    EXPECT_TRUE(
        std::isnan(xlogy(tensor({0.0}).to(device), tensor({double{NAN}}).to(device)).item()));
    EXPECT_EQ(fmax(tensor({double{NAN}, 1.0}).to(device), tensor({2.0, double{NAN}}).to(device))
                  .cpu()
                  .to_vector<double>(),
              (Numbers{2, 1}));
    EXPECT_EQ(heaviside(tensor({-1.0, 0.0, 2.0}).to(device), tensor({0.5}).to(device))
                  .cpu()
                  .to_vector<double>(),
              (Numbers{0, 0.5, 1}));
  }
}

TEST(Special, SecondDerivativesOfSincAreFiniteAtZero) {
  const Tensor x = tensor({0.0, 0.05}).set_requires_grad();
  const Tensor first = grad({sinc(x).sum()}, {x}, {}, false, true)[0];
  const Tensor second = grad({first.sum()}, {x})[0];
  EXPECT_NEAR(second[0].item(), -M_PI * M_PI / 3, 1e-12);
  EXPECT_TRUE(isfinite(second).all().item<bool>());
}

TEST(Special, ClampSharesTheGradientAtABound) {
  const Tensor x = tensor({0.0, 1.0, 3.0, double{NAN}}).set_requires_grad();
  const Tensor low = full({}, 1.0, kFloat64).set_requires_grad();
  const Tensor y = clamp(x, low, full({}, 2.0, kFloat64));
  EXPECT_TRUE(std::isnan(y[3].item()));
  y.narrow(0, 0, 3).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Numbers{0, 0.5, 0, 0}));
  EXPECT_EQ(low.grad().item(), 1.5);
  x.set_grad({});
  clamp(x, 0.0, 1.0).narrow(0, 0, 3).sum().backward();  // numbers take all of it
  EXPECT_EQ(x.grad().to_vector<double>(), (Numbers{0, 0, 0, 0}));
  EXPECT_TRUE(std::isnan(clamp(tensor({1.0}), tensor({double{NAN}}), Tensor()).item()));
}

TEST(Special, CheckTheirInputs) {
  const Tensor whole = tensor<int64_t>({15, -4});
  EXPECT_EQ(exp2(whole).dtype(), kFloat32);
  const Tensor few = tensor<int64_t>({-20, 100}), halves = full({2}, 1.5, kBFloat16);
  EXPECT_TRUE(equal(ldexp(halves, few), tensor({0x1.8p-20, 0x1.8p100}).to(kBFloat16)));
  EXPECT_EQ(ldexp(few, few).dtype(), kFloat32);
  EXPECT_EQ(ldexp(few, halves).dtype(), kBFloat16);
  EXPECT_EQ(ldexp(tensor({1.0}), tensor<int64_t>({1000})).item(), 0x1p1000);
  EXPECT_EQ(round(whole, 2).to_vector<int64_t>(), (std::vector<int64_t>{15, -4}));
  EXPECT_EQ(bitwise_not(whole).to_vector<int64_t>(), (std::vector<int64_t>{-16, 3}));
  EXPECT_FALSE(bitwise_not(tensor({1.f}) > 0).item<bool>());
  EXPECT_EQ(bitwise_left_shift(whole.to(kInt32), tensor<int64_t>({40, 1}).to(kInt32))
                .to(kInt64)
                .to_vector<int64_t>(),
            (std::vector<int64_t>{0, -8}));
  EXPECT_EQ(bitwise_right_shift(whole, tensor<int64_t>({70, 70})).to_vector<int64_t>(),
            (std::vector<int64_t>{0, -1}));
  EXPECT_EQ(rsub(tensor({1.f}), tensor({5.f}), 2).item(), 3);
  EXPECT_EQ(error_of([&] { round(whole, -1); }),
            "round: integers are not rounded to tens: got -1 decimals, expected 0 or more");
  EXPECT_EQ(error_of([&] { frac(whole); }), "frac: needs a floating dtype: got int64");
  EXPECT_EQ(error_of([&] { clamp(whole, Tensor(), Tensor()); }),
            "clamp: no bound: got none, expected low, high or both");
  EXPECT_THROW(bitwise_left_shift(tensor({1.f}), whole), Error);
  EXPECT_THROW(hypot(whole, whole), Error);
  EXPECT_THROW(heaviside(whole, tensor({1.f})), Error);
  EXPECT_EQ(isclose(tensor({1.0, 2.0, double{NAN}}), tensor({1.0, 2.1, double{NAN}}))
                .to(kInt64)
                .to_vector<int64_t>(),
            (std::vector<int64_t>{1, 0, 0}));
  const Tensor flags = gt(tensor({1.f, -1.f}), 0);
  EXPECT_EQ(isclose(flags, ones_like(flags)).to(kInt64).to_vector<int64_t>(),
            (std::vector<int64_t>{1, 0}));
}

// --- Activations --------------------------------------------------------------------------------

double scaled_elu_of(double x, double alpha, double scale, double input_scale) {
  return scale * (x > 0 ? x : alpha * std::expm1(x * input_scale));
}

WICK_OP_CASE(selu, .samples = unary_samples(-2, 2, {0}), .call = call_of(selu),
             .reference = elementwise([](double x) {
               return scaled_elu_of(x, 1.6732632423543772, 1.0507009873554805, 1);
             }),
             .second_order = true);
WICK_OP_CASE(
    celu, .samples = unary_samples(-2, 2, {0}),
    .call = [](const Tensors& x) -> Tensors { return {celu(x[0], 0.5)}; },
    .reference = elementwise([](double x) { return scaled_elu_of(x, 0.5, 1, 2); }),
    .second_order = true);
WICK_OP_CASE(logsigmoid, .samples = unary_samples(-4, 4), .call = call_of(logsigmoid),
             .reference = elementwise([](double x) { return -std::log1p(std::exp(-x)); }),
             .second_order = true);
WICK_OP_CASE(
    hardtanh, .samples = unary_samples(-2, 2, {-1, 0.5}),
    .call = [](const Tensors& x) -> Tensors { return {hardtanh(x[0], -1, 0.5)}; },
    .reference = elementwise([](double x) { return std::min(std::max(x, -1.0), 0.5); }),
    .second_order = true);
WICK_OP_CASE(
    hardshrink, .samples = unary_samples(-2, 2, {-0.5, 0.5}),
    .call = [](const Tensors& x) -> Tensors { return {hardshrink(x[0])}; },
    .reference = elementwise([](double x) { return std::fabs(x) <= 0.5 ? 0 : x; }),
    .second_order = true);
WICK_OP_CASE(
    softshrink, .samples = unary_samples(-2, 2, {-0.5, 0.5}),
    .call = [](const Tensors& x) -> Tensors { return {softshrink(x[0])}; },
    .reference = elementwise([](double x) { return x > 0.5    ? x - 0.5
                                                   : x < -0.5 ? x + 0.5
                                                              : 0; }),
    .second_order = true);
WICK_OP_CASE(tanhshrink, .samples = unary_samples(0.5, 3), .call = call_of(tanhshrink),
             .reference = elementwise([](double x) { return x - std::tanh(x); }),
             .second_order = true);
WICK_OP_CASE(
    threshold, .samples = unary_samples(-2, 2, {0.1}),
    .call = [](const Tensors& x) -> Tensors { return {threshold(x[0], 0.1, 7)}; },
    .reference = elementwise([](double x) { return x > 0.1 ? x : 7; }), .second_order = true);

TEST(Hardtanh, HasNoGradientAtItsBounds) {
  const Tensor x = tensor({-1.0, 0.0, 1.0}).set_requires_grad();
  hardtanh(x).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (Numbers{0, 1, 0}));
  EXPECT_EQ(hardtanh(tensor<int64_t>({-5, 5})).to_vector<int64_t>(), (std::vector<int64_t>{-1, 1}));
  EXPECT_THROW(hardtanh(x, 1, -1), Error);
  EXPECT_THROW(softshrink(x, -1), Error);
  EXPECT_THROW(celu(x, 0), Error);
}

TEST(Rrelu, DrawsSlopesInTrainingAlone) {
  const Tensor x = full({1000}, -2.0, kFloat64).set_requires_grad();
  EXPECT_TRUE(equal(rrelu(x), leaky_relu(x, (1.0 / 8 + 1.0 / 3) / 2)));
  Generator one(3), two(3);
  const Tensor y = rrelu(x, 0.1, 0.3, true, &one);
  EXPECT_TRUE(equal(y, rrelu(x, 0.1, 0.3, true, &two)));
  EXPECT_GT(y.min().item(), -0.6);
  EXPECT_LT(y.max().item(), -0.2);
  EXPECT_NEAR(y.mean().item(), -0.4, 0.02);
  y.sum().backward();
  EXPECT_TRUE(allclose(x.grad() * -2, y));
  EXPECT_THROW(rrelu(x, 0.3, 0.1), Error);
}

WICK_OP_CASE(xlog1py, .samples = {{uniform({3, 4}, -2, 2), uniform({4}, -0.5, 3)}},
             .call = call_of(xlog1py),
             .reference = elementwise([](double x, double y) { return x * std::log1p(y); }),
             .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(ldexp, .samples = {{normal({3, 4}), uniform({4}, -3, 3)}}, .call = call_of(ldexp),
             .reference = elementwise([](double x, double y) { return x * std::exp2(y); }),
             .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(entr, .samples = unary_samples(0.1, 3), .call = call_of(entr),
             .reference = elementwise([](double x) { return -x * std::log(x); }),
             .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(ndtr, .samples = unary_samples(-3, 3), .call = call_of(ndtr),
             .reference = elementwise([](double x) { return std::erfc(-x * M_SQRT1_2) / 2; }),
             .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    mvlgamma, .samples = unary_samples(1.5, 6),
    .call = [](const Tensors& x) -> Tensors { return {mvlgamma(x[0], 3)}; },
    .reference = elementwise([](double x) {
      return std::lgamma(x) + std::lgamma(x - 0.5) + std::lgamma(x - 1) + 1.5 * std::log(M_PI);
    }),
    .tolerance = Tolerance::reduction(), .second_order = true);

TEST(Special, LogitTakesTheLowerOfCrossedBoundsFirst) {
  const Tensor x = tensor({0.1, 0.5, 0.7});
  const double low = std::log(0.6 / 0.4);
  EXPECT_TRUE(allclose(logit(x, 0.6), tensor({low, low, -low})));
}

TEST(Special, AtTheirEdges) {
  for (const Device device : devices()) {
    const auto numbers = [](const Tensor& x) { return x.to(kFloat64).cpu().to_vector<double>(); };
    const Tensor x = tensor<double>({0, -0.0, -2}).to(device);
    const double inf = HUGE_VAL;
    EXPECT_EQ(numbers(entr(x)), (std::vector<double>{0, 0, -inf}));
    EXPECT_EQ(numbers(signbit(x)), (std::vector<double>{0, 1, 1}));
    EXPECT_EQ(numbers(sgn(x)), (std::vector<double>{0, 0, -1}));
    EXPECT_EQ(xlog1py(zeros({1}, kFloat64, device), full({1}, -1, kFloat64, device)).item(), 0);
    EXPECT_TRUE(std::isnan(xlog1py(zeros({}), full({}, NAN)).item()));
    const Tensor scale = tensor<double>({0, 0, 0, INFINITY}).to(device).set_requires_grad();
    const Tensor number = tensor<double>({1, -1, INFINITY, 1}).to(device);
    const Tensor product = xlog1py(scale, number);
    EXPECT_EQ(numbers(product), (std::vector<double>{0, 0, 0, INFINITY}));
    product.sum().backward();
    EXPECT_EQ(numbers(scale.grad()), (std::vector<double>{std::log1p(1), 0, 0, std::log1p(1)}));
    EXPECT_EQ(numbers(clamp_min(x, -1)), (std::vector<double>{0, 0, -1}));
    EXPECT_EQ(numbers(clamp_max(x, x - 1)), (std::vector<double>{-1, -1, -3}));
    EXPECT_EQ(float_power(full({}, 2, kInt64, device), 0.5).dtype(), kFloat64);
    EXPECT_EQ(numbers(vander(tensor<int64_t>({1, 2, 3}).to(device))),
              (std::vector<double>{1, 1, 1, 4, 2, 1, 9, 3, 1}));
    EXPECT_EQ(numbers(vander(tensor<float>({2}).to(device), 4, true)),
              (std::vector<double>{1, 2, 4, 8}));
  }
}

}  // namespace
}  // namespace wick::testing
