#include "wick/core/ops/sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "wick/core/ops/random.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

using Integers = std::vector<int64_t>;
Integers values(const Tensor& x) { return x.to(kInt64).to_vector<int64_t>(); }

// The order of the elements of `x` along `axis`, for each of the other coordinates.
HostArray order(const HostArray& x, int axis, bool descending) {
  HostArray result = filled(x.shape);
  for_each_coordinate(with(x.shape, axis, std::min<int64_t>(x.shape[axis], 1)), [&](Shape c) {
    Integers indices(static_cast<size_t>(x.shape[axis]));
    std::iota(indices.begin(), indices.end(), 0);
    const auto element = [&](int64_t i) { return at(x, with(c, axis, i)); };
    std::stable_sort(indices.begin(), indices.end(), [&](int64_t a, int64_t b) {
      return descending ? element(a) > element(b) : element(a) < element(b);
    });
    for (size_t i = 0; i < indices.size(); ++i) {
      at(result, with(c, axis, static_cast<int64_t>(i))) = static_cast<double>(indices[i]);
    }
  });
  return result;
}

Arrays sorted(const HostArray& x, int axis, bool descending, int64_t count) {
  const HostArray all = order(x, axis, descending);
  const Shape shape = with(x.shape, axis, count);
  return {remap(x, shape,
                [&](const Shape& c) { return with(c, axis, static_cast<int64_t>(at(all, c))); }),
          remap(all, shape, [](const Shape& c) { return c; })};
}

WICK_OP_CASE(
    sort,
    .samples = {{distinct({7, 3})},
                {distinct({3, 60})},
                {distinct({1, 1})},
                {distinct({0, 3})},
                {distinct({3, 0})},
                {distinct({2, 40, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      const Sorted up = sort(x[0], 1), down = sort(x[0], 0, true);
      return {up.values, up.indices, down.values, down.indices};
    },
    .reference = [](const Arrays& x) -> Arrays {
      Arrays result = sorted(x[0], 1, false, x[0].shape[1]);
      const Arrays down = sorted(x[0], 0, true, x[0].shape[0]);
      result.insert(result.end(), down.begin(), down.end());
      return result;
    },
    .tolerance = Tolerance::elementwise(), .second_order = true);

WICK_OP_CASE(
    sort_long_rows, .samples = {{normal({9, 3001})}},
    .call = [](const Tensors& x) -> Tensors {
      const Sorted result = sort(x[0]);
      return {result.values, result.indices};
    },
    .reference = [](const Arrays& x) -> Arrays { return sorted(x[0], 1, false, 3001); },
    .tolerance = Tolerance::exact());

WICK_OP_CASE(
    topk,
    .samples = {{distinct({3, 7})},
                {distinct({2, 33, 3})},
                {distinct({1, 2})},
                {distinct({0, 4})},
                {normal({300, 100})}},
    .call = [](const Tensors& x) -> Tensors {
      const Sorted top = topk(x[0], 2, 1), low = topk(x[0], 1, -1, false);
      return {top.values, top.indices, low.values, low.indices};
    },
    .reference = [](const Arrays& x) -> Arrays {
      Arrays result = sorted(x[0], 1, true, 2);
      const Arrays low = sorted(x[0], x[0].shape.rank() - 1, false, 1);
      result.insert(result.end(), low.begin(), low.end());
      return result;
    },
    .tolerance = Tolerance::elementwise(), .second_order = true);

WICK_OP_CASE(
    topk_of_64, .samples = {{normal({3, 64})}, {normal({2, 5000})}, {normal({1, 30000})}},
    .call = [](const Tensors& x) -> Tensors {
      const Sorted top = topk(x[0], 64), low = topk(x[0], 64, -1, false);
      return {top.values, top.indices, low.values, low.indices};
    },
    .reference = [](const Arrays& x) -> Arrays {
      Arrays result = sorted(x[0], 1, true, 64);
      const Arrays low = sorted(x[0], 1, false, 64);
      result.insert(result.end(), low.begin(), low.end());
      return result;
    },
    .tolerance = Tolerance::exact());

WICK_OP_CASE(
    topk_of_many, .samples = {{distinct({3, 130})}},
    .call = [](const Tensors& x) -> Tensors {
      const Sorted top = topk(x[0], 100);
      return {top.values, top.indices};
    },
    .reference = [](const Arrays& x) -> Arrays { return sorted(x[0], 1, true, 100); },
    .tolerance = Tolerance::exact());

template <class Combine>
HostArray scanned(const HostArray& x, int axis, const Combine& combine) {
  HostArray y = x;
  for_each_coordinate(x.shape, [&](const Shape& c) {
    if (c[axis] > 0) at(y, c) = combine(at(y, with(c, axis, c[axis] - 1)), at(x, c));
  });
  return y;
}

WICK_OP_CASE(
    cumsum,
    .samples = {{normal({7, 3})},
                {normal({2, 33, 5})},
                {normal({1, 1})},
                {normal({2, 0, 3})},
                {normal({4, 127, 3, 2})},
                {normal({2, 3001})},
                {normal({3, 90, 200})}},
    .call = [](const Tensors& x) -> Tensors {
      return {cumsum(x[0], 1), cumsum(x[0], -1)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const auto add = [](double a, double b) { return a + b; };
      return {scanned(x[0], 1, add), scanned(x[0], x[0].shape.rank() - 1, add)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    cumprod, .covers = {"cumprod_backward"},
    .samples = {{uniform({5, 3}, 0.5, 2)}, {uniform({2, 9, 2}, -2, -0.5)}, {uniform({3, 0})}},
    .call = [](const Tensors& x) -> Tensors { return {cumprod(x[0], 1)}; },
    .reference = [](const Arrays& x) -> Arrays {
      return {scanned(x[0], 1, [](double a, double b) { return a * b; })};
    },
    .tolerance = Tolerance::reduction());

TEST(Sort, EqualElementsKeepTheirOrder) {
  for (const int64_t n : {20, 500}) {  // by insertion, and by digits
    const Tensor x = randint(0, 4, {n}, kFloat32);
    for (const bool descending : {false, true}) {
      const Sorted result = sort(x, 0, descending);
      const Integers v = values(result.values), i = values(result.indices);
      for (size_t k = 1; k < v.size(); ++k) {
        EXPECT_TRUE(descending ? v[k - 1] >= v[k] : v[k - 1] <= v[k]);
        EXPECT_TRUE(v[k - 1] != v[k] || i[k - 1] < i[k]);
      }
    }
  }
}

TEST(Sort, NaNIsGreatestAndZerosAreEqual) {
  const Tensor x = tensor<float>({NAN, 1, -0.0f, INFINITY, 0, -INFINITY, NAN, -0.0f});
  EXPECT_EQ(values(argsort(x)), (Integers{5, 2, 4, 7, 1, 3, 0, 6}));
  EXPECT_EQ(values(argsort(x, 0, true)), (Integers{0, 6, 3, 1, 2, 4, 7, 5}));
  EXPECT_EQ(values(topk(x, 4).indices), (Integers{0, 6, 3, 1}));
  EXPECT_EQ(values(topk(x, 3, 0, false).indices), (Integers{5, 2, 4}));
  for (const Dtype dtype : {kFloat64, kFloat16, kBFloat16}) {
    EXPECT_EQ(values(argsort(x.to(dtype))), (Integers{5, 2, 4, 7, 1, 3, 0, 6}));
  }
}

TEST(Sort, SortsEveryInteger) {
  const Tensor x = tensor<int64_t>({3, -1, INT64_MAX, INT64_MIN, 0});
  EXPECT_EQ(values(argsort(x)), (Integers{3, 1, 4, 0, 2}));
  EXPECT_EQ(values(argsort(tensor<int32_t>({3, -1, INT32_MAX, INT32_MIN}))),
            (Integers{3, 1, 0, 2}));
  EXPECT_EQ(values(argsort(tensor<uint8_t>({3, 255, 0}))), (Integers{2, 0, 1}));
  EXPECT_EQ(values(argsort(tensor<bool>({true, false, true}))), (Integers{1, 0, 2}));
  const Tensor many = randint(-50, 50, {400}, kInt32);
  Integers want = values(many);
  std::sort(want.begin(), want.end());
  EXPECT_EQ(values(sort(many).values), want);
}

TEST(Sort, TiesOfTopkNameTheFirst) {
  const Tensor x = tensor<float>({1, 3, 3, 2, 3});
  EXPECT_EQ(values(topk(x, 2).indices), (Integers{1, 2}));
  EXPECT_EQ(values(topk(x, 5).indices), (Integers{1, 2, 4, 3, 0}));
}

TEST(Sort, RankZeroAndBadK) {
  EXPECT_EQ(sort(scalar_tensor(2)).indices.item(), 0);
  EXPECT_EQ(topk(scalar_tensor(2), 1).values.item(), 2);
  EXPECT_EQ(topk(ones({2, 3}), 0).values.shape(), (Shape{2, 0}));
  EXPECT_THROW(topk(ones({2, 3}), 4), Error);
  EXPECT_THROW(topk(ones({2, 3}), -1), Error);
  EXPECT_THROW(sort(ones({2, 3}), 2), Error);
}

TEST(Scan, IntegersSumAsInt64) {
  const Tensor y = cumsum(full({300}, 200, kUint8), 0);
  EXPECT_EQ(y.dtype(), kInt64);
  EXPECT_EQ(values(y).back(), 60000);
  EXPECT_EQ(values(cumsum(ones({3}, kBool), 0)), (Integers{1, 2, 3}));
  EXPECT_EQ(values(cumprod(tensor<int32_t>({2, 3, -4}), 0)), (Integers{2, 6, -24}));
  EXPECT_EQ(cumsum(scalar_tensor(3), -1).item(), 3);
}

TEST(Scan, LongSumsOfFloatsStayExact) {
  const Tensor y = cumsum(full({1 << 20}, 0.1f), 0);
  EXPECT_FLOAT_EQ(y[-1].item<float>(), static_cast<float>(0.1f * static_cast<double>(1 << 20)));
}

TEST(Scan, GradientOfProductsWithZeros) {
  for (const std::vector<double>& x :
       {std::vector<double>{2, 0, 3, 4}, {0, 2, 3, 0}, {1, 2, 0, 0}}) {
    const auto products = [](const Tensors& in) -> Tensors { return {cumprod(in[0], 0)}; };
    EXPECT_TRUE(gradcheck(products, {tensor(x).set_requires_grad()}));
    EXPECT_TRUE(gradgradcheck(products, {tensor(x).set_requires_grad()}));
  }
}

}  // namespace
}  // namespace wick::testing
