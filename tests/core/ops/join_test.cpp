#include "wick/core/ops/join.h"

#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

HostArray joined(const Arrays& parts, int axis) {
  Shape shape = parts[0].shape;
  shape[axis] = 0;
  for (const HostArray& part : parts) shape[axis] += part.shape[axis];
  HostArray y = filled(shape);
  int64_t start = 0;
  for (const HostArray& part : parts) {
    for_each_coordinate(part.shape, [&](Shape c) {
      const double value = at(part, c);
      c[axis] += start;
      at(y, c) = value;
    });
    start += part.shape[axis];
  }
  return y;
}

WICK_OP_CASE(
    cat,
    .samples = {{normal({2, 3}), normal({2, 1}), normal({2, 0})},
                {normal({3, 5, 7}), normal({3, 2, 7})},
                {normal({2, 3, 4, 5}), normal({2, 33, 4, 5})},
                {normal({129, 100}), normal({129, 100})}},
    .call = [](const Tensors& x) -> Tensors { return {cat(x, 1)}; },
    .reference = [](const Arrays& x) -> Arrays { return {joined(x, 1)}; },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    cat_first_axis,
    .samples = {{normal({3}), normal({1})},
                {normal({5, 4}), normal({0, 4}), normal({2, 4})},
                {normal({2, 3, 2, 2}), normal({1, 3, 2, 2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {cat({x[0], x[1], x[0]})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {joined({x[0], x[1], x[0]}, 0)};
    },
    .tolerance = Tolerance::elementwise(), .second_order = true);

WICK_OP_CASE(
    stack,
    .samples = {{normal({3}), normal({3})},
                {normal({2, 31}), normal({2, 31})},
                {normal({0, 2}), normal({0, 2})}},
    .call = [](const Tensors& x) -> Tensors { return {stack(x, -1)}; },
    .reference = [](const Arrays& x) -> Arrays {
      Arrays parts = x;
      for (HostArray& part : parts) part.shape.push_back(1);
      return {joined(parts, parts[0].shape.rank() - 1)};
    },
    .tolerance = Tolerance::exact());

WICK_OP_CASE(
    pad, .samples = {{normal({3, 4})}, {normal({1, 1})}, {normal({2, 3, 33, 5})}},
    .call = [](const Tensors& x) -> Tensors {
      return {pad(x[0], {1, 2, 0, 3}, 0.5)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      Shape shape = x[0].shape;
      shape[shape.rank() - 1] += 3;
      shape[shape.rank() - 2] += 3;
      HostArray y = filled(shape, 0.5);
      for_each_coordinate(x[0].shape, [&](Shape c) {
        const double value = at(x[0], c);
        ++c[c.rank() - 1];
        at(y, c) = value;
      });
      return {y};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    pad_reflect, .samples = {{normal({4, 3})}, {normal({2, 3, 5, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      return {pad(x[0], {2, 1, 1, 2}, 0, PadMode::kReflect)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      Shape shape = x[0].shape;
      const int last = shape.rank() - 1;
      shape[last] += 3;
      shape[last - 1] += 3;
      const auto mirror = [](int64_t i, int64_t n) {
        return n - 1 - std::abs(n - 1 - std::abs(i));
      };
      return {remap(x[0], shape, [&](Shape c) {
        c[last] = mirror(c[last] - 2, x[0].shape[last]);
        c[last - 1] = mirror(c[last - 1] - 1, x[0].shape[last - 1]);
        return c;
      })};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    pad_replicate, .samples = {{normal({4, 1})}, {normal({2, 3, 5, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      return {pad(x[0], {3, 1}, 0, PadMode::kReplicate)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const int last = x[0].shape.rank() - 1;
      const int64_t n = x[0].shape[last];
      return {remap(x[0], with(x[0].shape, last, n + 4), [&](Shape c) {
        c[last] = std::min(std::max<int64_t>(c[last] - 3, 0), n - 1);
        return c;
      })};
    },
    .tolerance = Tolerance::reduction());

WICK_OP_CASE(
    pad_circular, .samples = {{normal({4, 3})}, {normal({2, 3, 5, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      return {pad(x[0], {3, 1, 0, 2}, 0, PadMode::kCircular)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      Shape shape = x[0].shape;
      const int last = shape.rank() - 1;
      const int64_t rows = shape[last - 1], columns = shape[last];
      shape[last] += 4;
      shape[last - 1] += 2;
      return {remap(x[0], shape, [&](Shape c) {
        c[last] = (c[last] + columns - 3) % columns;
        c[last - 1] %= rows;
        return c;
      })};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    repeat, .samples = {{normal({2, 3})}, {normal({1, 1})}, {normal({0, 3})}, {normal({31, 2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {repeat(x[0], {2, 3, 2})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const Shape& s = x[0].shape;
      return {remap(x[0], {2, 3 * s[0], 2 * s[1]}, [&](const Shape& c) {
        return Shape{c[1] % s[0], c[2] % s[1]};
      })};
    },
    .tolerance = Tolerance::reduction());

WICK_OP_CASE(
    tril,
    .samples = {{normal({3, 3})},
                {normal({2, 4, 7})},
                {normal({7, 2})},
                {normal({1, 1})},
                {normal({2, 0, 3})}},
    .call = [](const Tensors& x) -> Tensors {
      return {tril(x[0]), tril(x[0], 2), tril(x[0], -9)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      Arrays result;
      for (const int64_t diagonal : {0, 2, -9}) {
        HostArray y = x[0];
        for_each_coordinate(y.shape, [&](const Shape& c) {
          if (c[c.rank() - 1] > c[c.rank() - 2] + diagonal) at(y, c) = 0;
        });
        result.push_back(y);
      }
      return result;
    },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    triu, .samples = {{normal({3, 3})}, {normal({2, 4, 7})}, {normal({160, 160})}},
    .call = [](const Tensors& x) -> Tensors { return {triu(x[0], -1)}; },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      for_each_coordinate(y.shape, [&](const Shape& c) {
        if (c[c.rank() - 1] < c[c.rank() - 2] - 1) at(y, c) = 0;
      });
      return {y};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    flip, .samples = {{normal({3, 5})}, {normal({1, 33})}, {normal({0, 2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {flip(x[0], {0, -1})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const Shape& s = x[0].shape;
      return {remap(x[0], s, [&](const Shape& c) {
        return Shape{s[0] - 1 - c[0], s[1] - 1 - c[1]};
      })};
    },
    .tolerance = Tolerance::exact());

WICK_OP_CASE(
    roll, .samples = {{normal({3, 5})}, {normal({2, 1})}, {normal({2, 0})}},
    .call = [](const Tensors& x) -> Tensors { return {roll(x[0], -8, 1)}; },
    .reference = [](const Arrays& x) -> Arrays {
      const Shape& s = x[0].shape;
      return {remap(x[0], s, [&](const Shape& c) { return Shape{c[0], (c[1] + 8) % s[1]}; })};
    },
    .tolerance = Tolerance::exact());

TEST(Join, CatPromotesDtypes) {
  const Tensor y = cat({counting({2}), ones({1}, kFloat16), zeros({1}, kBool)});
  EXPECT_EQ(y.dtype(), kFloat16);
  EXPECT_EQ(y.to(kFloat32).to_vector<float>(), (std::vector<float>{0, 1, 1, 0}));
  EXPECT_EQ(cat({ones({1}, kFloat16), ones({1}, kBFloat16)}).dtype(), kFloat32);
  EXPECT_EQ(cat({ones({1}, kUint8), ones({1}, kInt32)}).dtype(), kInt32);
}

TEST(Join, CatSkipsTensorsWithoutAnything) {
  const Tensor x = counting({2, 2});
  EXPECT_EQ(cat({empty({0}, kInt64), x, x}, 1).shape(), (Shape{2, 4}));
  EXPECT_EQ(cat({empty({0}), empty({0})}).shape(), (Shape{0}));
  const Tensor nothing = empty({0}, kFloat64).set_requires_grad(),
               one = ones({2, 2}).set_requires_grad();
  const Tensor y = cat({nothing, one, nothing});
  EXPECT_EQ(y.dtype(), kFloat64);
  y.backward(ones_like(y));
  EXPECT_EQ(nothing.grad().shape(), (Shape{0}));
  EXPECT_EQ(one.grad().to_vector<float>(), (std::vector<float>{1, 1, 1, 1}));
}

WICK_OP_CASE(
    repeat_interleave, .samples = {{normal({2, 3, 4})}},
    .call = [](const Tensors& x) -> Tensors {
      const Tensor times = tensor<int64_t>({2, 0, 3}).to(x[0].device());
      return {repeat_interleave(x[0], 2, 1), repeat_interleave(x[0], 3),
              repeat_interleave(x[0], times, 1)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      const Tensor first = x[0].narrow(1, 0, 1), last = x[0].narrow(1, 2, 1);
      const Tensor rows = x[0].reshape({24, 1});
      return {cat({first, first, x[0].narrow(1, 1, 1), x[0].narrow(1, 1, 1), last, last}, 1),
              cat({rows, rows, rows}, 1).reshape({-1}), cat({first, first, last, last, last}, 1)};
    },
    .second_order = true, .traceable = false);

TEST(Join, RepeatsEachSliceAsOftenAsAsked) {
  const Tensor x = counting({3});
  EXPECT_EQ(repeat_interleave(x, tensor<int32_t>({0, 2, 1})).to_vector<int64_t>(),
            (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ(repeat_interleave(x, tensor<int64_t>({2})).numel(), 6);
  EXPECT_EQ(repeat_interleave(x, 0).shape(), Shape{0});
  EXPECT_EQ(repeat_interleave(x, zeros({3}, kInt64)).shape(), Shape{0});
  EXPECT_FALSE(repeat_interleave(x, 1).raw_data() == x.raw_data());
  EXPECT_THROW(repeat_interleave(x, -1), Error);
  EXPECT_THROW(repeat_interleave(x, tensor<int64_t>({1, 2})), Error);
  EXPECT_THROW(repeat_interleave(x, tensor<int64_t>({1, -2, 1})), Error);
  EXPECT_THROW(repeat_interleave(x, ones({3})), Error);
}

TEST(Join, CatKeepsChannelsLast) {
  const Tensor x = ones({2, 3, 4, 5}).contiguous(MemoryFormat::kChannelsLast);
  EXPECT_TRUE(cat({x, x}, 1).is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_TRUE(cat({x, x.contiguous()}, 1).is_contiguous());
  EXPECT_TRUE(pad(x, {1, 1, 1, 1}).is_contiguous(MemoryFormat::kChannelsLast));
}

TEST(Join, PadCropsWithNegativeSizes) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(pad(x, {-1, 1, -1, 0}, 9).to_vector<int64_t>(), (std::vector<int64_t>{4, 5, 9}));
  EXPECT_EQ(pad(x, {-1, -1}).to_vector<int64_t>(), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(pad(x, {1, -1}, 0, PadMode::kReplicate).to_vector<int64_t>(),
            (std::vector<int64_t>{0, 0, 1, 3, 3, 4}));
  // A margin that takes away more than there is takes of the other margin.
  const auto replicated = [&](int64_t before, int64_t after) {
    return pad(counting({3}), {before, after}, 0, PadMode::kReplicate).to_vector<int64_t>();
  };
  EXPECT_EQ(replicated(-3, 2), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(replicated(4, -5), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(replicated(-4, 2), (std::vector<int64_t>{2}));
  EXPECT_EQ(replicated(-1, -2), (std::vector<int64_t>{}));
  EXPECT_THROW(replicated(-4, 0), Error);
}

TEST(Join, TriangleDropsNaN) {
  const Tensor x = full({2, 2}, NAN);
  EXPECT_EQ(tril(x, -2).to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
}

TEST(Join, WorksOnIntegersAndBool) {
  EXPECT_EQ(tril(ones({2, 2}, kBool)).to_vector<bool>()[1], false);
  EXPECT_EQ(flip(counting({3}), {0}).to_vector<int64_t>(), (std::vector<int64_t>{2, 1, 0}));
  EXPECT_EQ(repeat(counting({2}), {2}).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 0, 1}));
}

TEST(Join, ResultsAreNeverTheInput) {
  const Tensor x = counting({2, 3}), one = counting({1}), nothing = empty({0, 3});
  const std::vector<Tensor> same = {pad(x, {0, 0}),    pad(x, {0, 0}, 0, PadMode::kReflect),
                                    repeat(x, {1, 1}), flip(x, {}),
                                    roll(x, 6, 1),     roll(x, 0, 0)};
  for (const Tensor& y : same) {
    EXPECT_TRUE(equal(y, x));
    EXPECT_NE(y.raw_data(), x.raw_data());
  }
  const Tensor cropped = pad(x, {0, -1});
  EXPECT_EQ(cropped.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 3, 4}));
  EXPECT_NE(cropped.raw_data(), x.raw_data());
  const Tensor repeated = repeat(one, {3}).add_(tensor<int64_t>({1, 2, 3}));
  EXPECT_EQ(repeated.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(one.item(), 0);
  EXPECT_FALSE(roll(nothing, 1, 0).is_same(nothing));
  EXPECT_EQ(cat({empty({0}), empty({0}, kFloat64)}).dtype(), kFloat64);
  EXPECT_EQ(error_of([&] {
              flip(x, {1, -1});
            }),
            "flip: an axis comes twice: got [1, -1], expected each at most once");
}

TEST(Join, RejectsWhatDoesNotFit) {
  EXPECT_THROW(cat({}), Error);
  EXPECT_THROW(cat({ones({2, 2}), ones({3, 3})}, 1), Error);
  EXPECT_THROW(cat({ones({2, 2}), ones({2})}), Error);
  EXPECT_THROW(cat({scalar_tensor(1)}), Error);
  EXPECT_THROW(cat({ones({2})}, 1), Error);
  EXPECT_THROW(stack({ones({2}), ones({3})}), Error);
  EXPECT_THROW(pad(ones({2}), {1}), Error);
  EXPECT_THROW(pad(ones({2}), {1, 1, 1, 1}), Error);
  EXPECT_THROW(pad(ones({2}), {-2, -1}), Error);
  EXPECT_THROW(pad(ones({2}), {2, 0}, 0, PadMode::kReflect), Error);
  EXPECT_THROW(repeat(ones({2, 2}), {2}), Error);
  EXPECT_THROW(tril(ones({2})), Error);
}

}  // namespace
}  // namespace wick::testing
