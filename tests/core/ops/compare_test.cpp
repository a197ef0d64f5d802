#include "wick/core/ops/compare.h"

#include <gtest/gtest.h>

#include "wick/core/ops/elementwise.h"
#include "wick/tests/core/ops/elementwise_cases.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

// Small whole numbers, among which many are equal.
Samples small_integers() {
  Samples samples;
  for (Sample& sample : binary_samples()) {
    Sample integers;
    for (const Input& input : sample) {
      Input whole = index(input.shape, -2, 3);
      whole.dtype.reset();
      integers.push_back(whole);
    }
    samples.push_back(integers);
  }
  return samples;
}
const std::vector<Dtype> kAllDtypes = {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32};

#define WICK_COMPARE_CASE(name, condition)                                                  \
  WICK_OP_CASE(                                                                             \
      name, .covers = {#name, #name "_scalar"}, .samples = small_integers(),                \
      .call = [](const Tensors& x) -> Tensors {                                             \
        return {name(x[0], x[1]), name(x[0], 1)};                                           \
      },                                                                                    \
      .reference = [](const Arrays& in) -> Arrays {                                         \
        return {elementwise([](double x, double y) -> double { return condition; })(in)[0], \
                elementwise([](double x) -> double {                                        \
                  const double y = 1;                                                       \
                  return condition;                                                         \
                })(in)[0]};                                                                 \
      },                                                                                    \
      .dtypes = kAllDtypes, .differentiable = false)
WICK_COMPARE_CASE(eq, x == y);
WICK_COMPARE_CASE(ne, x != y);
WICK_COMPARE_CASE(lt, x < y);
WICK_COMPARE_CASE(le, x <= y);
WICK_COMPARE_CASE(gt, x > y);
WICK_COMPARE_CASE(ge, x >= y);

WICK_OP_CASE(logical_and, .covers = {"logical_and"}, .samples = small_integers(),
             .call = call_of(logical_and),
             .reference = elementwise([](double x, double y) -> double {
               return x != 0 && y != 0;
             }),
             .dtypes = kAllDtypes, .differentiable = false);
WICK_OP_CASE(logical_or, .covers = {"logical_or"}, .samples = small_integers(),
             .call = call_of(logical_or),
             .reference = elementwise([](double x, double y) -> double {
               return x != 0 || y != 0;
             }),
             .dtypes = kAllDtypes, .differentiable = false);
WICK_OP_CASE(logical_xor, .covers = {"logical_xor"}, .samples = small_integers(),
             .call = call_of(logical_xor),
             .reference = elementwise([](double x, double y) -> double {
               return (x != 0) != (y != 0);
             }),
             .dtypes = kAllDtypes, .differentiable = false);
WICK_OP_CASE(logical_not, .covers = {"logical_not"}, .samples = small_integers(),
             .call = call_of(logical_not),
             .reference = elementwise([](double x) -> double { return x == 0; }),
             .dtypes = kAllDtypes, .differentiable = false);

#define WICK_BITWISE_CASE(name, operation)                                                     \
  WICK_OP_CASE(                                                                                \
      name, .covers = {#name}, .samples = small_integers(), .call = call_of(name),             \
      .reference = elementwise([](double x, double y) {                                        \
        return static_cast<double>(static_cast<int64_t>(x) operation static_cast<int64_t>(y)); \
      }),                                                                                      \
      .dtypes = {kInt64, kInt32}, .differentiable = false)
WICK_BITWISE_CASE(bitwise_and, &);
WICK_BITWISE_CASE(bitwise_or, |);
WICK_BITWISE_CASE(bitwise_xor, ^);

// 1 / x and 0 / x of small integers: infinities and NaN among them.
WICK_OP_CASE(
    classes, .covers = {"isnan", "isinf", "isfinite"}, .samples = small_integers(),
    .call = [](const Tensors& x) -> Tensors {
      const Tensor y = x[1] / x[0];
      return {isnan(y), isinf(y), isfinite(y)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      return {elementwise([](double x, double y) -> double { return x == 0 && y == 0; })(in)[0],
              elementwise([](double x, double y) -> double { return x == 0 && y != 0; })(in)[0],
              elementwise([](double x, double) -> double { return x != 0; })(in)[0]};
    },
    .differentiable = false);

HostArray where_of(const Arrays& in) {
  // condition x + (1 - condition) y, each product broadcast.
  const auto times = elementwise([](double c, double x) { return c != 0 ? x : 0; });
  const auto others = elementwise([](double c, double x) { return c != 0 ? 0 : x; });
  const auto sum = elementwise([](double x, double y) { return x + y; });
  return sum({times({in[0], in[1]})[0], others({in[0], in[2]})[0]})[0];
}
WICK_OP_CASE(
    where,
    .samples = {{mask({31}), uniform({31}), uniform({31})},
                {mask({5, 1}), uniform({1, 33}), uniform({33})},
                {mask({2, 3, 4, 5}), uniform({}), uniform({3, 1, 1})},
                {mask({0, 3}), uniform({1, 3}), uniform({3})},
                {mask({}), uniform({}), uniform({})},
                {mask({3, 30001}), uniform({3, 30001}), uniform({3, 30001})}},
    .call = [](const Tensors& x) -> Tensors { return {where(x[0], x[1], x[2])}; },
    .reference = [](const Arrays& in) -> Arrays { return {where_of(in)}; }, .second_order = true);
WICK_OP_CASE(
    where_numbers, .samples = {{mask({31}), uniform({31})}, {mask({5, 1}), uniform({33})}},
    .call = [](const Tensors& x) -> Tensors {
      return {where(x[0], x[1], -1), where(x[0], 0.5, x[1])};
    },
    .reference = [](const Arrays& in) -> Arrays {
      return {elementwise([](double c, double x) { return c != 0 ? x : -1; })(in)[0],
              elementwise([](double c, double x) { return c != 0 ? 0.5 : x; })(in)[0]};
    },
    .second_order = true);
WICK_OP_CASE(
    masked_fill,
    .samples = {{uniform({31}), mask({31})},
                {uniform({5, 33}), mask({33})},
                {uniform({2, 3, 4, 5}), mask({3, 1, 1})},
                {uniform({0, 3}), mask({1, 3})},
                {uniform({}), mask({})},
                {uniform({3, 1}), mask({2, 1, 33})},
                {uniform({}), mask({5})}},
    .call = [](const Tensors& x) -> Tensors { return {x[0].masked_fill(x[1], -3)}; },
    .reference = elementwise([](double x, double mask) { return mask != 0 ? -3 : x; }),
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    masked_fill_by_a_tensor, .samples = {{normal({4, 300}), normal({}), mask({300})}},
    .call = [](const Tensors& x) -> Tensors { return {masked_fill(x[0], x[2], x[1])}; },
    .composed = [](const Tensors& x) -> Tensors {
      return {masked_fill(x[0], x[2], 0) + x[1] * x[2].to(x[0].dtype())};
    },
    .second_order = true);

TEST(Compare, FillsWithOneNumber) {
  const Tensor x = arange(0, 2), mask = x == 0;
  EXPECT_EQ(masked_fill(x, mask, scalar_tensor(true, kBool)).to_vector<int64_t>(),
            (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(masked_fill(ones({2}, kFloat16), mask, scalar_tensor(2.0)).dtype(), kFloat16);
  EXPECT_THROW(masked_fill(x, mask, scalar_tensor(0.5)), Error);
  EXPECT_THROW(masked_fill(x, mask, ones({1}, kInt64)), Error);
}

TEST(Compare, HoldsForNan) {
  const Tensor nan = tensor<float>({NAN}), one = ones({1});
  for (const Tensor& other : {nan, one}) {
    EXPECT_FALSE(eq(nan, other).to_vector<bool>()[0]);
    EXPECT_TRUE(ne(nan, other).to_vector<bool>()[0]);
    EXPECT_FALSE((nan < other).to_vector<bool>()[0]);
    EXPECT_FALSE((nan >= other).to_vector<bool>()[0]);
  }
}

TEST(Compare, IsExactForLargeIntegers) {
  const int64_t big = int64_t{1} << 53;
  EXPECT_TRUE((tensor<int64_t>({big}) < tensor<int64_t>({big + 1})).to_vector<bool>()[0]);
  EXPECT_FALSE(eq(tensor<int64_t>({big}), big + 1).to_vector<bool>()[0]);
}

TEST(Compare, RoundsNumbersToTheTensorsDtype) {
  for (const Dtype dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    EXPECT_TRUE(eq(full({1}, 0.1, dtype), 0.1).to_vector<bool>()[0]) << to_string(dtype);
  }
}

TEST(Compare, RejectsWhatHasNoMeaning) {
  const Tensor x = ones({2, 3});
  EXPECT_NE(error_of([&] { where(x, x, x); }).find("must be bool: got float32"), std::string::npos);
  EXPECT_NE(error_of([&] {
              x.masked_fill_(zeros({2, 2, 3}, kBool), 0);
            }).find("does not broadcast"),
            std::string::npos);
  EXPECT_NE(error_of([&] { bitwise_and(x, x); }).find("needs integers or bool"), std::string::npos);
}

}  // namespace
}  // namespace wick::testing
