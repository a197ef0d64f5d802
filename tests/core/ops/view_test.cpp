#include "wick/core/ops/view.h"

#include <gtest/gtest.h>

#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/slice.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

bool shares_memory(const Tensor& a, const Tensor& b) {
  return a.impl()->storage == b.impl()->storage;
}

WICK_OP_CASE(
    reshape,
    .samples = {{normal({6, 4})}, {normal({2, 3, 1, 4})}, {normal({0, 4})}, {normal({33, 8})}},
    .call = [](const Tensors& x) -> Tensors {
      return {x[0].reshape({-1, 2, 2})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      return {{{x[0].shape.numel() / 4, 2, 2}, x[0].values}};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    permute, .samples = {{normal({2, 3, 4, 5})}, {normal({31, 1, 3, 2})}, {normal({2, 0, 3, 1})}},
    .call = [](const Tensors& x) -> Tensors {
      return {x[0].permute({2, -1, 0, 1})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const Shape& s = x[0].shape;
      return {remap(x[0], {s[2], s[3], s[0], s[1]}, [](const Shape& c) {
        return Shape{c[2], c[3], c[0], c[1]};
      })};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    transpose, .samples = {{normal({3, 5})}, {normal({2, 33, 7})}, {normal({1, 0})}},
    .call = [](const Tensors& x) -> Tensors { return {x[0].transpose(0, -1)}; },
    .reference = [](const Arrays& x) -> Arrays {
      const auto swap = [](Shape s) {
        std::swap(s[0], s[s.rank() - 1]);
        return s;
      };
      return {remap(x[0], swap(x[0].shape), swap)};
    },
    .tolerance = Tolerance::exact());

WICK_OP_CASE(
    pixel_shuffle, .samples = {{normal({2, 12, 3, 5})}, {normal({1, 4, 1, 1})}},
    .call = [](const Tensors& x) -> Tensors { return {pixel_shuffle(x[0], 2)}; },
    .reference = [](const Arrays& x) -> Arrays {
      const Shape& s = x[0].shape;
      return {remap(x[0], {s[0], s[1] / 4, s[2] * 2, s[3] * 2}, [](const Shape& c) {
        return Shape{c[0], c[1] * 4 + c[2] % 2 * 2 + c[3] % 2, c[2] / 2, c[3] / 2};
      })};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

TEST(PixelUnshuffle, IsTheInverse) {
  const Tensor x = arange(2 * 18 * 4 * 3).reshape({2, 18, 4, 3});
  EXPECT_TRUE(bit_equal(pixel_unshuffle(pixel_shuffle(x, 3), 3), x));
  EXPECT_EQ(error_of([&] { pixel_shuffle(x, 2); }),
            "pixel_shuffle: factor 2 does not fit: got shape [2, 18, 4, 3], expected [..., C r^2, "
            "H, W]");
  EXPECT_EQ(error_of([&] { pixel_unshuffle(x, 2); }),
            "pixel_unshuffle: factor 2 does not fit: got shape [2, 18, 4, 3], expected [..., C, H "
            "r, W r]");
}

WICK_OP_CASE(
    expand, .samples = {{normal({1, 5})}, {normal({7, 1})}, {normal({1, 1})}, {normal({0, 5})}},
    .call = [](const Tensors& x) -> Tensors {
      return {x[0].expand({3, x[0].size(0) == 1 ? 7 : -1, x[0].size(1) == 1 ? 5 : -1})};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const Shape& s = x[0].shape;
      return {remap(x[0], {3, s[0] == 1 ? 7 : s[0], 5}, [&](const Shape& c) {
        return Shape{s[0] == 1 ? 0 : c[1], s[1] == 1 ? 0 : c[2]};
      })};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    narrow,
    .samples = {{normal({5, 4})}, {normal({3, 7, 2})}, {normal({5, 0})}, {normal({2, 4, 3, 3})}},
    .call = [](const Tensors& x) -> Tensors { return {x[0].narrow(1, 0, x[0].size(1) / 2)}; },
    .reference = [](const Arrays& x) -> Arrays {
      return {
          remap(x[0], with(x[0].shape, 1, x[0].shape[1] / 2), [](const Shape& c) { return c; })};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    slice_step,
    .samples = {{normal({7})},
                {normal({9, 4})},
                {normal({33, 3})},
                {normal({3, 2, 2, 2})},
                {normal({8, 0})}},
    .call = [](const Tensors& x) -> Tensors { return {x[0].slice(0, 1, -1, 3)}; },
    .reference = [](const Arrays& x) -> Arrays {
      return {remap(x[0], with(x[0].shape, 0, (x[0].shape[0] - 2 + 2) / 3), [](Shape c) {
        c[0] = 1 + 3 * c[0];
        return c;
      })};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    select, .samples = {{normal({3})}, {normal({4, 33})}, {normal({2, 3, 2, 2})}},
    .call = [](const Tensors& x) -> Tensors { return {x[0].select(0, -2)}; },
    .reference = [](const Arrays& x) -> Arrays {
      Shape rest = x[0].shape;
      rest.erase(0);
      return {remap(x[0], rest, [&](Shape c) {
        c.insert(0, x[0].shape[0] - 2);
        return c;
      })};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    split, .samples = {{normal({3, 7})}, {normal({1, 7, 2})}, {normal({0, 7})}},
    .call = [](const Tensors& x) -> Tensors {
      return split(x[0], {2, 0, 5}, 1);
    },
    .reference = [](const Arrays& x) -> Arrays {
      const auto part = [&](int64_t start, int64_t size) {
        return remap(x[0], with(x[0].shape, 1, size), [=](Shape c) {
          c[1] += start;
          return c;
        });
      };
      return {part(0, 2), part(2, 0), part(2, 5)};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    diagonal,
    .samples = {{normal({4, 4, 2})}, {normal({3, 5, 1})}, {normal({7, 2, 3})}, {normal({1, 1, 2})}},
    .call = [](const Tensors& x) -> Tensors {
      return {diagonal(x[0], 1), diagonal(x[0], -1, 1, 0), diagonal(x[0], 0, 0, 2)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const Shape& s = x[0].shape;
      const int64_t upper = std::max<int64_t>(std::min(s[0], s[1] - 1), 0);
      return {remap(x[0], {s[2], upper},
                    [](const Shape& c) {
                      return Shape{c[1], c[1] + 1, c[0]};
                    }),
              remap(x[0], {s[2], upper},
                    [](const Shape& c) {
                      return Shape{c[1], c[1] + 1, c[0]};
                    }),
              remap(x[0], {s[1], std::min(s[0], s[2])}, [](const Shape& c) {
                return Shape{c[1], c[0], c[1]};
              })};
    },
    .tolerance = Tolerance::elementwise(), .second_order = true);

WICK_OP_CASE(
    place, .samples = {{normal({2, 3})}, {normal({1, 1})}, {normal({3, 0})}},
    .call = [](const Tensors& x) -> Tensors {
      return {place(x[0], {7, 9}, {1, 2}, {2, 3}, 0.5)};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = filled({7, 9}, 0.5);
      for_each_coordinate(x[0].shape, [&](const Shape& c) {
        at(y, {1 + 2 * c[0], 2 + 3 * c[1]}) = at(x[0], c);
      });
      return {y};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

TEST(View, MembersShareMemory) {
  const Tensor x = counting({2, 3, 4});
  for (const Tensor& y :
       {x.view({6, 4}), x.reshape({4, 6}), x.permute({2, 0, 1}), x.transpose(1, 2), x.flatten(),
        x.unsqueeze(1), x.unsqueeze(0).squeeze(), x.unsqueeze(0).expand({5, -1, -1, -1}),
        x.narrow(1, 1, 2), x.select(2, 3), x.slice(0, 0, 2, 2), x.chunk(2, 2)[1], diagonal(x),
        unflatten(x, 2, {2, -1})}) {
    EXPECT_TRUE(shares_memory(x, y)) << to_string(y.shape());
    EXPECT_TRUE(y.impl()->is_view);
  }
  EXPECT_FALSE(shares_memory(x, x.permute({2, 0, 1}).reshape({24})));
}

TEST(View, WritingThroughAViewChangesTheBase) {
  const Tensor x = counting({3, 3});
  const uint64_t before = x.version();
  x.select(1, 0).fill_(-1);
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{-1, 1, 2, -1, 4, 5, -1, 7, 8}));
  EXPECT_GT(x.version(), before);
}

TEST(View, ReshapeIsAViewWhereStridesAllow) {
  const Tensor x = counting({4, 6, 2});
  const Tensor part = x.narrow(1, 1, 3);  // strides 12, 2, 1
  EXPECT_TRUE(shares_memory(part, part.reshape({2, 2, 6})));
  EXPECT_TRUE(shares_memory(part, part.reshape({4, 1, 3, 2, 1})));
  EXPECT_FALSE(shares_memory(part, part.reshape({12, 2})));
  EXPECT_EQ(part.reshape({2, 12}).to_vector<int64_t>(), part.to_vector<int64_t>());
  const Tensor row = counting({1, 4}).expand({3, 4});
  EXPECT_FALSE(shares_memory(row, row.reshape({12})));
  EXPECT_TRUE(shares_memory(row, row.reshape({3, 2, 2})));
}

TEST(View, ChannelsLastSurvivesViewsThatKeepItsOrder) {
  Tensor x = empty({2, 3, 4, 5}, kFloat32, kCpu, MemoryFormat::kChannelsLast);
  x.fill_(1);
  EXPECT_TRUE(x.narrow(0, 1, 1).is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_TRUE(x.unsqueeze(0).squeeze(0).is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_TRUE(x.permute({0, 2, 3, 1}).is_contiguous());
  EXPECT_TRUE(
      x.permute({0, 2, 3, 1}).permute({0, 3, 1, 2}).is_contiguous(MemoryFormat::kChannelsLast));
  Tensor pixel = empty({2, 3, 1, 1}, kFloat32, kCpu, MemoryFormat::kChannelsLast);
  EXPECT_TRUE(shares_memory(pixel, pixel.flatten(1)));
  x.set_requires_grad();
  x.narrow(1, 0, 2).sum().backward();
  EXPECT_TRUE(x.grad().is_contiguous(MemoryFormat::kChannelsLast));
}

TEST(View, RankZeroAndEmpty) {
  const Tensor scalar = scalar_tensor(3);
  EXPECT_EQ(scalar.reshape({1, 1}).shape(), (Shape{1, 1}));
  EXPECT_EQ(scalar.unsqueeze(-1).shape(), (Shape{1}));
  EXPECT_EQ(scalar.squeeze().shape(), Shape{});
  EXPECT_EQ(scalar.flatten().shape(), (Shape{1}));
  EXPECT_EQ(scalar.expand({2, 2}).to_vector<float>(), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(scalar.permute({}).shape(), Shape{});
  const Tensor none = empty({2, 0, 3});
  EXPECT_EQ(none.reshape({3, -1, 2}).shape(), (Shape{3, 0, 2}));
  EXPECT_EQ(none.transpose(0, 2).shape(), (Shape{3, 0, 2}));
  EXPECT_EQ(none.chunk(3, 1).size(), 3u);
}

TEST(View, SqueezeAndFlattenShapes) {
  const Tensor x = empty({1, 2, 1, 3});
  EXPECT_EQ(x.squeeze().shape(), (Shape{2, 3}));
  EXPECT_EQ(x.squeeze(-2).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(x.squeeze(1).shape(), (Shape{1, 2, 1, 3}));
  EXPECT_EQ(x.flatten(1).shape(), (Shape{1, 6}));
  EXPECT_EQ(x.flatten(0, -2).shape(), (Shape{2, 3}));
  EXPECT_EQ(x.unsqueeze(4).shape(), (Shape{1, 2, 1, 3, 1}));
  EXPECT_EQ(unflatten(x, -1, {-1, 1}).shape(), (Shape{1, 2, 1, 3, 1}));
}

TEST(View, SliceBoundsFollowPython) {
  const Tensor x = counting({10});
  const auto sliced = [&](int64_t start, int64_t stop, int64_t step) {
    return x.slice(0, start, stop, step).to_vector<int64_t>();
  };
  using V = std::vector<int64_t>;
  EXPECT_EQ(sliced(-3, 10, 1), (V{7, 8, 9}));
  EXPECT_EQ(sliced(-30, 2, 1), (V{0, 1}));
  EXPECT_EQ(sliced(2, -2, 3), (V{2, 5}));
  EXPECT_EQ(sliced(8, 100, 1), (V{8, 9}));
  EXPECT_EQ(sliced(5, 5, 1), V{});
  EXPECT_EQ(sliced(7, 3, 2), V{});
  EXPECT_EQ(sliced(0, 10, 20), (V{0}));
}

TEST(View, ChunksAndSplitsHavePyTorchsSizes) {
  const auto sizes = [](const std::vector<Tensor>& parts) {
    std::vector<int64_t> result;
    for (const Tensor& part : parts) result.push_back(part.size(0));
    return result;
  };
  using V = std::vector<int64_t>;
  EXPECT_EQ(sizes(counting({7}).chunk(3)), (V{3, 3, 1}));
  EXPECT_EQ(sizes(counting({6}).chunk(4)), (V{2, 2, 2}));
  EXPECT_EQ(sizes(counting({7}).split(4)), (V{4, 3}));
  EXPECT_EQ(sizes(counting({0}).split(4)), (V{0}));
}

TEST(View, UnusedPartsOfASplitHaveNoGradient) {
  const Tensor x = counting({4}).to(kFloat32).set_requires_grad();
  x.chunk(2)[1].sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0, 1, 1}));
}

TEST(View, KeepsNothingForBackward) {
  const Tensor x = counting({4, 2}).to(kFloat32).set_requires_grad();
  const Tensor y = mul(x, 2);
  const Tensor z = y.reshape({8}).narrow(0, 0, 3);
  {
    const NoGrad no_grad;
    y.detach().fill_(7);
  }
  z.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 2, 2, 0, 0, 0, 0, 0}));
}

TEST(View, ErrorsNameShapes) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(error_of([&] {
              x.reshape({4, -1});
            }),
            "reshape: sizes do not fit: got [4, -1] for a tensor of shape [2, 3] with 6 elements");
  EXPECT_EQ(
      error_of([&] {
        x.reshape({-1, -1});
      }),
      "reshape: bad sizes: got [-1, -1], expected sizes of 0 or more, one of them -1 at most");
  EXPECT_EQ(error_of([&] { x.t().view({6}); }),
            "view: needs a copy: got shape [3, 2] with strides [1, 3], expected one that can be "
            "walked as [6]: use reshape");
  EXPECT_EQ(error_of([&] {
              x.permute({0, 0});
            }),
            "permute: wrong axes: got [0, 0], expected each of the 2 axes of shape [2, 3] once");
  EXPECT_EQ(error_of([&] { x.transpose(0, 2); }),
            "transpose: axis out of range: got 2, expected one in [-2, 1]");
  EXPECT_EQ(error_of([&] {
              x.expand({2, 4});
            }),
            "expand: sizes do not fit: got [2, 4] for a tensor of shape [2, 3], expected its own "
            "where they are not 1");
  EXPECT_EQ(
      error_of([&] { x.narrow(1, 2, 2); }),
      "narrow: out of range: got start 2 and length 2 for axis 1 of shape [2, 3], expected a part "
      "of its 3 elements");
  EXPECT_EQ(
      error_of([&] { x.select(1, 3); }),
      "select: index out of range: got 3 for axis 1 of shape [2, 3], expected one in [-3, 2]");
  EXPECT_EQ(error_of([&] { x.slice(0, 0, 2, 0); }),
            "slice: step must be positive: got 0, expected 1 or more");
  EXPECT_EQ(error_of([&] {
              split(x, {1, 1}, 1);
            }),
            "split: sizes do not add up: got a sum of 2, expected 3 for axis 1 of shape [2, 3]");
  EXPECT_EQ(error_of([&] {
              place(x, {2, 3}, {1, 0}, {1, 1});
            }),
            "place: does not fit: got a tensor of shape [2, 3] at [1, 0] with steps [1, 1], "
            "expected it within [2, 3]");
  EXPECT_EQ(error_of([&] {
              unflatten(x, 1, {2, 2});
            }),
            "unflatten: sizes do not fit: got [2, 2] for a tensor of shape [3] with 3 elements");
  EXPECT_EQ(error_of([&] { diagonal(x, 0, 1, -1); }),
            "diagonal: axes are the same: got 1 and -1, expected two");
}

}  // namespace
}  // namespace wick::testing
