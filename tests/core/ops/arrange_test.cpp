#include "wick/core/ops/arrange.h"

#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

using Integers = std::vector<int64_t>;
Integers integers_of(const Tensor& x) { return x.cpu().to_vector<int64_t>(); }

WICK_OP_CASE(
    roll_axes, .samples = {{normal({3, 4, 5})}},
    .call = [](const Tensors& x) -> Tensors {
      return {roll(x[0], {1, -2}, {0, 2})};
    },
    .reference = [](const Arrays& in) -> Arrays {
      return {remap(in[0], {3, 4, 5}, [](const Shape& c) {
        return Shape{(c[0] + 2) % 3, c[1], (c[2] + 2) % 5};
      })};
    },
    .tolerance = Tolerance::exact(), .second_order = true);
WICK_OP_CASE(
    rot90, .samples = {{normal({3, 5})}},
    .call = [](const Tensors& x) -> Tensors {
      return {rot90(x[0]), rot90(x[0], -1)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      return {remap(in[0], {5, 3},
                    [](const Shape& c) {
                      return Shape{c[1], 4 - c[0]};
                    }),
              remap(in[0], {5, 3}, [](const Shape& c) {
                return Shape{2 - c[1], c[0]};
              })};
    },
    .tolerance = Tolerance::exact());
WICK_OP_CASE(
    diag_embed, .samples = {{normal({2, 4})}, {normal({3, 1})}},
    .call = [](const Tensors& x) -> Tensors {
      return {diag_embed(x[0], 1), diag_embed(x[0], -2, 0, 1)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      const int64_t batch = in[0].shape[0], n = in[0].shape[1];
      HostArray above = filled({batch, n + 1, n + 1}), below = filled({n + 2, n + 2, batch});
      for_each_coordinate(in[0].shape, [&](const Shape& c) {
        at(above, {c[0], c[1], c[1] + 1}) = at(in[0], c);
        at(below, {c[1] + 2, c[1], c[0]}) = at(in[0], c);
      });
      return {above, below};
    },
    .tolerance = Tolerance::exact(), .second_order = true);
WICK_OP_CASE(
    stacks, .samples = {{normal({3, 4}), normal({3, 4})}},
    .call = [](const Tensors& x) -> Tensors {
      return {hstack(x), vstack(x), dstack(x)};
    },
    .composed = [](const Tensors& x) -> Tensors {
      return {cat(x, 1), cat(x, 0), stack(x, 2)};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

TEST(Arrange, TakesSeveralAxes) {
  const Tensor x = zeros({1, 3, 1, 2, 1});
  EXPECT_EQ(squeeze(x, {0, -1, 3}).shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(unsqueeze(zeros({3, 2}), {0, -1}).shape(), (Shape{1, 3, 2, 1}));
  EXPECT_EQ(squeeze(x, {0}).raw_data(), x.raw_data());
  EXPECT_EQ(swapaxes(x, 1, 3).shape(), (Shape{1, 2, 1, 3, 1}));
  EXPECT_EQ(error_of([&] {
              squeeze(x, {0, 0});
            }),
            "squeeze: an axis comes twice: got [0, 0], expected each at most once");
  EXPECT_THROW(unsqueeze(x, {0, 6, 0}), Error);
  EXPECT_THROW(roll(x, {1, 2}, {0}), Error);
}

TEST(Arrange, TurnsAndRepeats) {
  for (const Device device : devices()) {
    const Tensor x = arange(4).reshape({2, 2}).to(device);
    EXPECT_EQ(integers_of(rot90(x)), (Integers{1, 3, 0, 2}));
    EXPECT_EQ(integers_of(rot90(x, 2)), (Integers{3, 2, 1, 0}));
    EXPECT_EQ(integers_of(rot90(x, 3)), (Integers{2, 0, 3, 1}));
    EXPECT_EQ(integers_of(rot90(x, 4)), (Integers{0, 1, 2, 3}));
    EXPECT_EQ(integers_of(fliplr(x)), (Integers{1, 0, 3, 2}));
    EXPECT_EQ(integers_of(flipud(x)), (Integers{2, 3, 0, 1}));
    EXPECT_EQ(integers_of(roll(x, 1)), (Integers{3, 0, 1, 2}));
    EXPECT_EQ(integers_of(tile(x, 2)), (Integers{0, 1, 0, 1, 2, 3, 2, 3}));
    EXPECT_EQ(integers_of(diag(x)), (Integers{0, 3}));
    EXPECT_EQ(integers_of(diag(x, 1)), (Integers{1}));
    EXPECT_EQ(integers_of(diag(x[1], -1)), (Integers{0, 0, 0, 2, 0, 0, 0, 3, 0}));
    EXPECT_EQ(trace(x).item<int64_t>(), 3);
    EXPECT_EQ(integers_of(cartesian_prod({x[0], x[1]})), (Integers{0, 2, 0, 3, 1, 2, 1, 3}));
    EXPECT_EQ(integers_of(hstack({x[0], x[1]})), (Integers{0, 1, 2, 3}));
    EXPECT_EQ(integers_of(vstack({x[0], x})), (Integers{0, 1, 0, 1, 2, 3}));
    EXPECT_EQ(integers_of(column_stack({x[0], x[1]})), (Integers{0, 2, 1, 3}));
    EXPECT_EQ(dstack({x[0], x[1]}).shape(), (Shape{1, 2, 2}));
  }
  EXPECT_EQ(diag(zeros({0})).shape(), (Shape{0, 0}));
  EXPECT_THROW(diag(ones({2, 2, 2})), Error);
  EXPECT_THROW(fliplr(ones({2})), Error);
  EXPECT_THROW(rot90(ones({2, 2}), 1, {0, 0}), Error);
  EXPECT_THROW(cartesian_prod({}), Error);
}

TEST(Arrange, MakesMatricesOfDiagonals) {
  for (const Device device : devices()) {
    const Tensor x = arange(4).reshape({2, 2}).to(device);
    EXPECT_EQ(integers_of(diagflat(x.slice(0, 1, 2), -1)), (Integers{0, 0, 0, 2, 0, 0, 0, 3, 0}));
    const Tensor blocks = block_diag({x, x[1], x[1][1]});
    EXPECT_EQ(blocks.shape(), (Shape{4, 5}));
    EXPECT_EQ(integers_of(blocks), (Integers{0, 1, 0, 0, 0, 2, 3, 0, 0, 0,  //
                                             0, 0, 2, 3, 0, 0, 0, 0, 0, 3}));
  }
  EXPECT_THROW(block_diag({}), Error);
  EXPECT_THROW(block_diag({zeros({1, 1, 1})}), Error);
}

TEST(Arrange, AddsAxesAndBroadcasts) {
  EXPECT_EQ(atleast_1d(ones({})).shape(), (Shape{1}));
  EXPECT_EQ(atleast_2d(ones({3})).shape(), (Shape{1, 3}));
  EXPECT_EQ(atleast_3d(ones({2, 3})).shape(), (Shape{2, 3, 1}));
  const std::vector<Tensor> all = broadcast_tensors({ones({3, 1}), zeros({2})});
  EXPECT_EQ(all[0].shape(), (Shape{3, 2}));
  EXPECT_EQ(all[1].sum().item(), 0);
  EXPECT_THROW(broadcast_tensors({ones({3}), ones({2})}), Error);
}

TEST(Arrange, SumsBackToASize) {
  const Tensor x = arange(24).to(kFloat32).reshape({2, 3, 4});
  EXPECT_TRUE(equal(sum_to_size(x, {3, 1}), x.sum({0}).sum({1}, true)));
  EXPECT_TRUE(equal(sum_to_size(x, {2, 3, 4}), x));
  EXPECT_EQ(sum_to_size(x, {}).item(), 276);
  EXPECT_EQ(sum_to_size(ones({3}, kInt32), {1}).dtype(), kInt64);
  EXPECT_EQ(sum_to_size(ones({3}, kBool), {1}).item<int64_t>(), 3);
  EXPECT_EQ(sum_to_size(ones({3}, kBool), {3}).dtype(), kBool);
  EXPECT_EQ(
      error_of([&] {
        sum_to_size(x, {2, 1});
      }),
      "sum_to_size: shapes do not fit: got [2, 3, 4], expected one that [2, 1] broadcasts to");
}

TEST(Arrange, CombinesElements) {
  const Tensor x = tensor<int64_t>({7, 8, 9});
  EXPECT_EQ(integers_of(combinations(x)), (Integers{7, 8, 7, 9, 8, 9}));
  EXPECT_EQ(integers_of(combinations(x, 3)), (Integers{7, 8, 9}));
  EXPECT_EQ(integers_of(combinations(x.slice(0, 0, 2), 2, true)), (Integers{7, 7, 7, 8, 8, 8}));
  EXPECT_EQ(combinations(x, 4).shape(), (Shape{0, 4}));
  EXPECT_EQ(combinations(x, 0).shape(), (Shape{0}));
  EXPECT_EQ(combinations(arange(6), 3).size(0), 20);
  EXPECT_EQ(combinations(arange(4), 3, true).size(0), 20);
}

}  // namespace
}  // namespace wick::testing
