#include "wick/core/ops/divide.h"

#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/tests/core/ops/elementwise_cases.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

double floor_remainder(double x, double y) { return x - y * std::floor(x / y); }

// Pairs whose quotients lie between whole numbers, so that no rounding of inputs moves them there.
Sample apart(const Shape& x, const Shape& y) {
  return {uniform(x, 0.1, 0.9), uniform(y, 1.05, 1.2)};
}
const Samples kBelowOne = {apart({}, {}), apart({31, 33}, {31, 33}), apart({5, 1}, {7}),
                           apart({0, 3}, {3}), apart({1025}, {1})};

// Numbers just above 1, and divisors between two.
Samples divided_by(double low, double high) {
  Samples samples;
  for (const Sample& pair : kBelowOne) {
    samples.push_back({uniform(pair[0].shape, 1.05, 1.08), uniform(pair[1].shape, low, high)});
  }
  return samples;
}

WICK_OP_CASE(
    trunc_divide, .samples = kBelowOne,
    .call = [](const Tensors& x) -> Tensors { return {div(x[0] * 4, x[1], Rounding::kTrunc)}; },
    .reference = elementwise([](double x, double y) { return std::trunc(x * 4 / y); }),
    .dtypes = {kFloat64}, .differentiable = false);
WICK_OP_CASE(
    floor_divide, .covers = {"floor_divide", "trunc_divide"}, .samples = kBelowOne,
    .call = [](const Tensors& x) -> Tensors { return {floor_divide(-x[0], x[1])}; },
    .reference = elementwise([](double x, double y) { return std::floor(-x / y); }),
    .second_order = true);
WICK_OP_CASE(
    remainder, .samples = divided_by(-2.4, -1.6),
    .call = [](const Tensors& x) -> Tensors { return {remainder(x[0], x[1])}; },
    .reference = elementwise(floor_remainder), .second_order = true);
WICK_OP_CASE(
    fmod, .samples = divided_by(0.55, 0.65),
    .call = [](const Tensors& x) -> Tensors { return {fmod(-x[0], x[1])}; },
    .reference = elementwise([](double x, double y) { return std::fmod(-x, y); }),
    .tolerance = Tolerance::reduction());

using Numbers = std::vector<double>;
using Integers = std::vector<int64_t>;

TEST(Division, IsPythonsAtTheEdges) {
  const double inf = INFINITY, nan = NAN;
  const Tensor x = tensor({1.0, -1.0, 0.0, 5.0, -5.0, inf, nan, 7.0, -7.0});
  const Tensor y = tensor({0.0, 3.0, -2.0, inf, inf, 2.0, 1.0, -2.0, 2.0});
  for (const Device device : devices()) {
    const Tensor a = x.to(device), b = y.to(device);
    const Numbers floors = floor_divide(a, b).cpu().to_vector<double>();
    EXPECT_EQ(floors[0], inf);
    EXPECT_EQ(floors[1], -1);
    EXPECT_TRUE(floors[2] == 0 && std::signbit(floors[2]));
    EXPECT_EQ(floors[3], 0);
    EXPECT_EQ(floors[4], -1);
    EXPECT_TRUE(std::isnan(floors[5]) && std::isnan(floors[6]));
    EXPECT_EQ(floors[7], -4);
    EXPECT_EQ(floors[8], -4);
    const Numbers rests = remainder(a, b).cpu().to_vector<double>();
    EXPECT_TRUE(std::isnan(rests[0]));
    EXPECT_EQ(rests[1], 2);
    EXPECT_EQ(rests[7], -1);
    EXPECT_EQ(rests[8], 1);
    EXPECT_EQ(div(a, b, Rounding::kTrunc)[7].item(), -3);
    EXPECT_EQ(fmod(a, b)[7].item(), 1);
    EXPECT_EQ(fmod(a, b)[8].item(), -1);
  }
  // The quotient rounds to 10, which 0.1 does not go into 0.9999... times.
  EXPECT_EQ(floor_divide(tensor({1.0}), 0.1).item(), std::floor((1.0 - std::fmod(1.0, 0.1)) / 0.1));
}

TEST(Division, OfIntegersStaysWhole) {
  const Tensor x = tensor<int64_t>({7, -7, 7, -7}), y = tensor<int64_t>({2, 2, -2, -2});
  for (const Device device : devices()) {
    const Tensor a = x.to(device), b = y.to(device);
    const auto values = [](const Tensor& z) { return z.cpu().to_vector<int64_t>(); };
    EXPECT_EQ(values(div(a, b, Rounding::kTrunc)), (Integers{3, -3, -3, 3}));
    EXPECT_EQ(values(div(a, b, Rounding::kFloor)), (Integers{3, -4, -4, 3}));
    EXPECT_EQ(values(remainder(a, b)), (Integers{1, 1, -1, -1}));
    EXPECT_EQ(values(fmod(a, b)), (Integers{1, -1, 1, -1}));
    EXPECT_EQ(values(remainder(a, 3)), (Integers{1, 2, 1, 2}));
    EXPECT_EQ(values(floor_divide(tensor<int64_t>({INT64_MIN}).to(device), -1)),
              (Integers{INT64_MIN}));
  }
  EXPECT_EQ(remainder(x.to(kInt32), 2).dtype(), kInt32);
  EXPECT_EQ(fmod(x, 2.5).dtype(), kFloat32);
  EXPECT_EQ(error_of([&] { floor_divide(x, 0); }), "floor_divide: division of integers by 0");
  EXPECT_THROW(remainder(x > 0, x > 0), Error);
}

}  // namespace
}  // namespace wick::testing
