#include "wick/core/ops/unfold.h"

#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

WICK_OP_CASE(
    unfold_axis, .samples = {{normal({2, 9, 3})}, {normal({1, 5, 1})}},
    .call = [](const Tensors& x) -> Tensors { return {unfold(x[0], 1, 3, 2)}; },
    .reference = [](const Arrays& in) -> Arrays {
      const Shape& s = in[0].shape;
      return {remap(in[0], {s[0], (s[1] - 3) / 2 + 1, s[2], 3}, [](const Shape& c) {
        return Shape{c[0], c[1] * 2 + c[3], c[2]};
      })};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

const UnfoldOptions kOptions{.dilation = {2, 1}, .padding = {1, 2}, .stride = {1, 2}};

WICK_OP_CASE(
    im2col, .samples = {{normal({2, 3, 6, 5})}, {normal({1, 1, 3, 2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {unfold(x[0], {2, 3}, kOptions)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      const Shape& s = in[0].shape;
      const int64_t rows = s[2] + 2 - 2, columns = (s[3] + 4 - 3) / 2 + 1;
      HostArray y = filled({s[0], s[1] * 6, rows * columns});
      for_each_coordinate(y.shape, [&](const Shape& c) {
        const int64_t row = c[2] / columns + c[1] / 3 % 2 * 2 - 1;
        const int64_t column = c[2] % columns * 2 + c[1] % 3 - 2;
        if (row < 0 || row >= s[2] || column < 0 || column >= s[3]) return;
        at(y, c) = at(in[0], {c[0], c[1] / 6, row, column});
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);
WICK_OP_CASE(
    col2im, .samples = {{uniform({2, 18, 24}, 0.5, 1.5)}},
    .call = [](const Tensors& x) -> Tensors {
      return {fold(x[0], {6, 5}, {2, 3}, kOptions)};
    },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = filled({2, 3, 6, 5});
      for_each_coordinate(in[0].shape, [&](const Shape& c) {
        const int64_t row = c[2] / 4 + c[1] / 3 % 2 * 2 - 1, column = c[2] % 4 * 2 + c[1] % 3 - 2;
        if (row < 0 || row >= 6 || column < 0 || column >= 5) return;
        at(y, {c[0], c[1] / 6, row, column}) += at(in[0], c);
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

TEST(Unfold, SeesWhatAConvolutionSees) {
  const Tensor x = arange(2 * 3 * 7 * 6, kFloat64).reshape({2, 3, 7, 6}) * 0.01;
  const Tensor weight = arange(4 * 3 * 3 * 3, kFloat64).reshape({4, 3, 3, 3}) * 0.1;
  const Tensor windows = unfold(x, 3, {.padding = 1, .stride = 2});
  const Tensor y = matmul(weight.reshape({4, 27}), windows).reshape({2, 4, 4, 3});
  EXPECT_TRUE(allclose(y, conv2d(x, weight, {}, 2, 1)));
}

TEST(Unfold, OfAnAxisIsAView) {
  const Tensor x = arange(6), y = unfold(x, 0, 2, 1);
  EXPECT_EQ(y.shape(), (Shape{5, 2}));
  EXPECT_EQ(y.raw_data(), x.raw_data());
  EXPECT_EQ(unfold(x[0], 0, 1, 1).shape(), (Shape{1}));
  EXPECT_EQ(unfold(ones({3, 4, 4}), 2).shape(), (Shape{12, 9}));
  EXPECT_EQ(fold(ones({12, 9}), 4, 2).shape(), (Shape{3, 4, 4}));
  EXPECT_EQ(error_of([&] { unfold(x, 0, 7, 1); }),
            "unfold: size out of range: got 7, expected 0 to 6");
  EXPECT_EQ(error_of([&] { unfold(x, 0, 2, 0); }), "unfold: step: got 0, expected 1 or more");
  EXPECT_EQ(error_of([] {
              unfold(ones({1, 1, 2, 2}), 3);
            }),
            "unfold: no window fits: got 3 elements, 1 apart, expected at most 2 in all");
  EXPECT_EQ(error_of([] {
              fold(ones({1, 5, 9}), 4, 2);
            }),
            "fold: windows do not fit: got shape [1, 5, 9], expected [N, C 4, 9]");
  EXPECT_THROW(unfold(x, 2), Error);
}

}  // namespace
}  // namespace wick::testing
