// Assignment to parts of a tensor, its operators, and the short ways to write shapes.
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "wick/core/core.h"
#include "wick/tests/harness/expect_error.h"

namespace wick {
namespace {

using wick::testing::error_of;
using Floats = std::vector<float>;

Floats floats_of(const Tensor& x) { return x.to_vector<float>(); }
Tensor counting_floats(const Shape& shape) {
  return arange(shape.numel(), kFloat32).reshape(shape);
}

// --- Assignment ---------------------------------------------------------------------------------

TEST(Assign, WritesTheElementsOfAPart) {
  const Tensor x = zeros({2, 2});
  x[0] = ones({2});
  x[{1, 0}] = 5;
  x[{1, -1}] = 0.5;
  EXPECT_EQ(floats_of(x), (Floats{1, 1, 5, 0.5}));
  x[{Slice(), 1}] = tensor<int64_t>({7});  // broadcast and converted
  EXPECT_EQ(floats_of(x), (Floats{1, 7, 5, 7}));
  x.t()[0] = x[1];
  EXPECT_EQ(floats_of(x), (Floats{5, 7, 7, 7}));
  EXPECT_THROW(x[0] = ones({3}), Error);
}

TEST(Assign, LeavesHandlesHandles) {
  const Tensor x = zeros({2, 2});
  Tensor row = x[0];
  row = ones({2});
  EXPECT_EQ(floats_of(x), (Floats{0, 0, 0, 0}));
  auto picked = x[tensor<int64_t>({1})];
  picked = ones({1, 2});
  picked += 1;
  EXPECT_EQ(floats_of(picked), (Floats{2, 2}));
  EXPECT_EQ(floats_of(x), (Floats{0, 0, 0, 0}));
}

TEST(Assign, WritesThroughAMask) {
  const Tensor x = counting_floats({2, 3});
  x[x > 3] = -1;
  EXPECT_EQ(floats_of(x), (Floats{0, 1, 2, 3, -1, -1}));
  x[x < 0] = tensor({8.f, 9.f});
  EXPECT_EQ(floats_of(x), (Floats{0, 1, 2, 3, 8, 9}));
  x[tensor({true, false})] = tensor({4.f, 5.f, 6.f});  // rows
  EXPECT_EQ(floats_of(x), (Floats{4, 5, 6, 3, 8, 9}));
  x[tensor({false, true})] = 0.5;
  EXPECT_EQ(floats_of(x), (Floats{4, 5, 6, 0.5, 0.5, 0.5}));
  x[zeros({2, 3}, kBool)] = 7;
  EXPECT_EQ(floats_of(x), (Floats{4, 5, 6, 0.5, 0.5, 0.5}));
  EXPECT_THROW(x[x > 4] = ones({3}), Error);
}

TEST(Assign, WritesThroughIndices) {
  const Tensor x = zeros({4, 2});
  x[tensor<int64_t>({2, -1})] = tensor({1.f, 2.f, 3.f, 4.f}, Shape{2, 2});
  EXPECT_EQ(floats_of(x), (Floats{0, 0, 0, 0, 1, 2, 3, 4}));
  x[tensor<int32_t>({0, 2})] = tensor({9.f, 8.f});
  EXPECT_EQ(floats_of(x), (Floats{9, 8, 0, 0, 9, 8, 3, 4}));
  x[tensor<int64_t>({1, 1})] = tensor({5.f, 6.f}, Shape{2, 1});  // the last one wins
  EXPECT_EQ(floats_of(x), (Floats{9, 8, 6, 6, 9, 8, 3, 4}));
  x[tensor<int64_t>({3})] = 0;
  EXPECT_EQ(floats_of(x), (Floats{9, 8, 6, 6, 9, 8, 0, 0}));
  const Tensor transposed = x.t();
  transposed[tensor<int64_t>({1})] = 1;
  EXPECT_EQ(floats_of(x), (Floats{9, 1, 6, 1, 9, 1, 0, 1}));
  EXPECT_THROW(x[tensor<int64_t>({4})] = 0, Error);
}

TEST(Assign, CombinesWithArithmetic) {
  const Tensor x = counting_floats({4});
  x[0] += 10;
  x[{Slice(1, 3)}] *= 2;
  x[tensor<int64_t>({3})] -= 1;
  x[x == 2] += tensor({0.5f});
  EXPECT_EQ(floats_of(x), (Floats{10, 2.5, 4, 2.5}));
  x[x > 3] /= 2;
  EXPECT_EQ(floats_of(x), (Floats{5, 2.5, 2, 2.5}));
}

TEST(Assign, IsSeenByBackward) {
  const Tensor w = tensor({2.f, 3.f, 4.f}).set_requires_grad();
  const Tensor x = w * 1;
  x[tensor<int64_t>({1})] = w[0] * 10;
  EXPECT_EQ(floats_of(x), (Floats{2, 20, 4}));
  x.sum().backward();
  EXPECT_EQ(floats_of(w.grad()), (Floats{11, 0, 1}));
  EXPECT_NE(error_of([&] { w[0] = 1; }).find("in place"), std::string::npos);
  const NoGrad no_grad;
  w[0] = 1;
  EXPECT_EQ(w[0].item(), 1);
}

// --- Operators ----------------------------------------------------------------------------------

TEST(Operators, ChangeInPlace) {
  Tensor x = counting_floats({3});
  const Tensor same = x;
  x += 1;
  x *= tensor({2.f});
  x -= counting_floats({3});
  x /= 2;
  EXPECT_EQ(floats_of(same), (Floats{1, 1.5, 2}));
  EXPECT_TRUE(x.is_same(same));
  const Tensor leaf = ones({2}).set_requires_grad();
  EXPECT_EQ(error_of([&] { leaf += 1; }),
            "add_: a leaf that requires a gradient cannot be changed in place: use NoGrad, or "
            "detach it");
}

TEST(Operators, CompareElements) {
  const Tensor x = counting_floats({3}), y = tensor({0.f, 2.f, 1.f});
  using Bools = std::vector<bool>;
  const auto bools = [](const Tensor& mask) { return mask.to_vector<bool>(); };
  EXPECT_EQ(bools(x == y), (Bools{true, false, false}));
  EXPECT_EQ(bools(x != y), (Bools{false, true, true}));
  EXPECT_EQ(bools(x == 1), (Bools{false, true, false}));
  EXPECT_EQ(bools(1 == x), (Bools{false, true, false}));
  EXPECT_EQ(bools(1 != x), (Bools{true, false, true}));
  EXPECT_EQ(bools(1 < x), (Bools{false, false, true}));
  EXPECT_EQ(bools(1 <= x), (Bools{false, true, true}));
  EXPECT_EQ(bools(1 > x), (Bools{true, false, false}));
  EXPECT_EQ(bools(1.0 >= x), (Bools{true, true, false}));
  EXPECT_EQ(bools((x > 0) & (x < 2)), (Bools{false, true, false}));
  EXPECT_EQ(bools((x < 1) | (x > 1)), (Bools{true, false, true}));
  EXPECT_EQ(bools((x < 2) ^ (x > 0)), (Bools{true, false, true}));
  EXPECT_EQ(bools(!(x == 1)), (Bools{true, false, true}));
}

// --- Members ------------------------------------------------------------------------------------

TEST(Members, AreTheFunctions) {
  const Tensor x = tensor({3.f, 1.f, 2.f, -4.f}, Shape{2, 2});
  EXPECT_TRUE(equal(x.neg().clamp(0), clamp(neg(x), 0)));
  EXPECT_TRUE(equal(x.log_softmax(1), log_softmax(x, 1)));
  EXPECT_TRUE(equal(x.std(0), stddev(x, 0)));
  EXPECT_TRUE(equal(x.norm(1), norm(x, 1)));
  EXPECT_TRUE(equal(x.sort(0).indices, sort(x, 0).indices));
  EXPECT_TRUE(equal(x.topk(1).values, topk(x, 1).values));
  EXPECT_TRUE(equal(x.gather(0, x.argmin(0, true)), gather(x, 0, argmin(x, 0, true))));
  EXPECT_TRUE(equal(x.index_select(1, arange(1)), x[{Slice(), Slice(0, 1)}]));
  EXPECT_TRUE(x.gt(-5).all().item<bool>());
  EXPECT_FALSE(x.gt(3).any().item<bool>());
  EXPECT_EQ(x.prod().item(), -24);
  EXPECT_EQ(floats_of(x.cumsum(1)), (Floats{3, 4, 2, -2}));
}

// --- Shapes -------------------------------------------------------------------------------------

TEST(ShapeFrom, ANumberOrAContainer) {
  const std::vector<int64_t> sizes = {2, 3};
  const std::array<int64_t, 2> array = {4, 5};
  EXPECT_EQ(zeros(sizes).shape(), (Shape{2, 3}));
  EXPECT_EQ(zeros(std::span<const int64_t>(sizes)).shape(), (Shape{2, 3}));
  EXPECT_EQ(zeros(array).shape(), (Shape{4, 5}));
  EXPECT_EQ(zeros(5).shape(), (Shape{5}));
  EXPECT_EQ(floats_of(counting_floats({2, 3}).sum(1)), (Floats{3, 12}));
  EXPECT_EQ(counting_floats({2, 3}).mean(-1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(counting_floats({2, 3}).reshape(-1).shape(), (Shape{6}));
  EXPECT_THROW(zeros(std::vector<int64_t>(9, 1)), Error);
}

TEST(Streams, ShowShapesDtypesAndDevices) {
  std::ostringstream out;
  out << Shape{2, 3} << " " << Shape{} << " " << kBFloat16 << " " << cuda_device(1);
  EXPECT_EQ(out.str(), "[2, 3] [] bfloat16 cuda:1");
}

TEST(Errors, SayWhatWasAskedFor) {
  EXPECT_EQ(error_of([] { ones({1}).data<double>(); }),
            "data: wrong element type: asked for float64, the tensor is float32");
  EXPECT_EQ(error_of([] {
              tensor({1, 2}, Shape{3});
            }),
            "tensor: wrong number of elements: got 2, expected 3 for shape [3]");
}

}  // namespace
}  // namespace wick
