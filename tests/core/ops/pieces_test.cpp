#include "wick/core/ops/pieces.h"

#include <gtest/gtest.h>

#include "wick/core/ops/slice.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

std::vector<Shape> shapes_of(const std::vector<Tensor>& pieces) {
  std::vector<Shape> shapes;
  for (const Tensor& piece : pieces) shapes.push_back(piece.shape());
  return shapes;
}

WICK_OP_CASE(
    slice_scatter, .samples = {{normal({3, 7}), normal({3, 2})}},
    .call = [](const Tensors& x) -> Tensors { return {slice_scatter(x[0], x[1], 1, 1, 6, 3)}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = in[0];
      for_each_coordinate(in[1].shape, [&](const Shape& c) {
        at(y, {c[0], 1 + 3 * c[1]}) = at(in[1], c);
      });
      return {y};
    },
    .tolerance = Tolerance::exact(), .second_order = true);
WICK_OP_CASE(
    select_scatter, .samples = {{normal({3, 5}), normal({3})}},
    .call = [](const Tensors& x) -> Tensors { return {select_scatter(x[0], x[1], 1, -2)}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = in[0];
      for (int64_t i = 0; i < 3; ++i) at(y, {i, 3}) = at(in[1], {i});
      return {y};
    },
    .tolerance = Tolerance::exact(), .second_order = true);
WICK_OP_CASE(
    diagonal_scatter, .samples = {{normal({3, 5}), normal({3})}},
    .call = [](const Tensors& x) -> Tensors { return {diagonal_scatter(x[0], x[1], 1)}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray y = in[0];
      for (int64_t i = 0; i < 3; ++i) at(y, {i, i + 1}) = at(in[1], {i});
      return {y};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

TEST(Pieces, AreSplit) {
  const Tensor x = arange(14).reshape({7, 2});
  EXPECT_EQ(shapes_of(tensor_split(x, 3)), (std::vector<Shape>{{3, 2}, {2, 2}, {2, 2}}));
  EXPECT_EQ(shapes_of(tensor_split(x, 3, -1)), (std::vector<Shape>{{7, 1}, {7, 1}, {7, 0}}));
  const std::vector<Tensor> pieces = tensor_split(x, std::vector<int64_t>{2, -3, 2, 100});
  EXPECT_EQ(shapes_of(pieces), (std::vector<Shape>{{2, 2}, {2, 2}, {0, 2}, {5, 2}, {0, 2}}));
  EXPECT_EQ(pieces[1].raw_data(), x.narrow(0, 2, 2).raw_data());
  EXPECT_EQ(shapes_of(hsplit(x, 2)), (std::vector<Shape>{{7, 1}, {7, 1}}));
  EXPECT_EQ(shapes_of(hsplit(arange(4), std::vector<int64_t>{1})), (std::vector<Shape>{{1}, {3}}));
  EXPECT_EQ(shapes_of(vsplit(x, 7)).size(), 7u);
  EXPECT_EQ(shapes_of(vsplit(x, std::vector<int64_t>{6})), (std::vector<Shape>{{6, 2}, {1, 2}}));
  EXPECT_EQ(shapes_of(dsplit(zeros({1, 2, 4}), 2)), (std::vector<Shape>{{1, 2, 2}, {1, 2, 2}}));
  EXPECT_EQ(error_of([&] { vsplit(x, 2); }), "vsplit: sections: got 2, expected a divisor of 7");
  EXPECT_THROW(dsplit(x, 1), Error);
  EXPECT_THROW(vsplit(arange(4), 2), Error);
  EXPECT_THROW(tensor_split(x, 0), Error);
}

TEST(Pieces, AreReplacedInACopy) {
  for (const Device device : devices()) {
    const Tensor x = zeros({2, 3}, kFloat32, device);
    EXPECT_EQ(slice_scatter(x, ones({2, 2}, kFloat32, device), 1, 1).sum().item(), 4);
    EXPECT_EQ(x.sum().item(), 0);
  }
  EXPECT_EQ(error_of([] {
              select_scatter(zeros({2, 3}), zeros({2}), 0, 0);
            }),
            "select_scatter: source: got shape [2], expected that of the piece, [3]");
}

}  // namespace
}  // namespace wick::testing
