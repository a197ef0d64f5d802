#include "wick/core/tensor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/norm.h"
#include "wick/tests/harness/expect_error.h"

namespace wick {
namespace {

using wick::testing::error_of;

TEST(Tensor, GoesByPyTorchsNamesToo) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(x.sizes(), (Shape{2, 3}));
  EXPECT_EQ(x.dim(), 2);
  EXPECT_TRUE(x.requires_grad_().requires_grad());
  EXPECT_FALSE(x.requires_grad_(false).requires_grad());
}

TEST(Tensor, HoldsShapeStridesAndType) {
  const Tensor x = empty({2, 3, 5}, kFloat64);
  EXPECT_EQ(x.shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(x.strides(), (Strides{15, 5, 1}));
  EXPECT_EQ(x.rank(), 3);
  EXPECT_EQ(x.numel(), 30);
  EXPECT_EQ(x.size(-1), 5);
  EXPECT_EQ(x.dtype(), kFloat64);
  EXPECT_EQ(x.device(), kCpu);
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(error_of([&] { x.size(3); }),
            "size: axis out of range: got 3, expected one in [-3, 2]");
}

TEST(Tensor, LaysImagesOutChannelsLast) {
  const Tensor x = empty({2, 3, 4, 5}, kFloat32, kCpu, MemoryFormat::kChannelsLast);
  EXPECT_EQ(x.strides(), (Strides{60, 1, 15, 3}));
  EXPECT_TRUE(x.is_contiguous(MemoryFormat::kChannelsLast));
  EXPECT_FALSE(x.is_contiguous());
  EXPECT_EQ(empty_like(x).strides(), x.strides());
  EXPECT_EQ(empty_like(x, kInt64).dtype(), kInt64);
  EXPECT_THROW(empty({2, 3}, kFloat32, kCpu, MemoryFormat::kChannelsLast), Error);
}

TEST(Tensor, RejectsShapesThatCannotBe) {
  EXPECT_THROW(empty({2, -1}), Error);
  EXPECT_THROW(empty({int64_t{1} << 62, 8}), Error);
  EXPECT_THROW(empty({int64_t{1} << 61}, kFloat64), Error);
  EXPECT_THROW((empty({1, 1, 1, 1, 1, 1, 1, 1, 1})), Error);
  EXPECT_THROW(empty_strided({2, 3}, {3, 2}, kFloat32, kCpu), Error);
  EXPECT_THROW(empty_strided({2, 3}, {3}, kFloat32, kCpu), Error);
  EXPECT_EQ(empty({0, 5}).numel(), 0);
}

TEST(Tensor, MakesConstants) {
  EXPECT_EQ(zeros({2}).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(ones({2}, kInt32).to_vector<int32_t>(), (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(full({2}, 2.5, kFloat64).to_vector<double>(), (std::vector<double>{2.5, 2.5}));
  EXPECT_EQ(full({2}, 7, kInt64).to_vector<int64_t>(), (std::vector<int64_t>{7, 7}));
  EXPECT_EQ(scalar_tensor(3).shape(), Shape{});
  EXPECT_EQ(zeros_like(empty({3}, kUint8)).dtype(), kUint8);
  EXPECT_EQ(ones_like(empty({1}, kBool)).item<bool>(), true);
  EXPECT_EQ(full({1}, int64_t{9007199254740993}, kInt64).item<int64_t>(), 9007199254740993);
}

TEST(Tensor, CountsInRanges) {
  EXPECT_EQ(arange(0, 5).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(arange(5, 0, -2).to_vector<int64_t>(), (std::vector<int64_t>{5, 3, 1}));
  EXPECT_EQ(arange(0, 1, 0.25, kFloat32).to_vector<float>(),
            (std::vector<float>{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(arange(3, 3).numel(), 0);
  EXPECT_EQ(arange(3, 3, -1).numel(), 0);
  EXPECT_THROW(arange(0, 1, 0), Error);
  EXPECT_EQ(error_of([] { arange(5, 0, 1); }),
            "arange: the step leads away from the end: got 5 to 0 by 1, expected a step below 0");
  EXPECT_EQ(error_of([] { arange(0.0, 1.5, -0.5); }),
            "arange: the step leads away from the end: got 0 to 1.5 by -0.5, expected a step "
            "above 0");
  EXPECT_EQ(error_of([] { arange(0.0, 5.0, HUGE_VAL); }),
            "arange: not finite: got 0 to 5 by inf, expected finite numbers");
  EXPECT_THROW(arange(0.0, HUGE_VAL, 1.0), Error);
  EXPECT_THROW(arange(std::nan(""), 5.0, 1.0), Error);
  EXPECT_THROW(arange(0.0, 5.0, std::nan("")), Error);
  const int64_t large = int64_t{1} << 53;
  EXPECT_EQ(arange(large, large + 3).to_vector<int64_t>(),
            (std::vector<int64_t>{large, large + 1, large + 2}));
  EXPECT_EQ(arange(INT64_MAX - 2, INT64_MAX).numel(), 2);
  EXPECT_EQ(arange(INT64_MIN, INT64_MAX, INT64_MAX).numel(), 3);
  EXPECT_EQ(arange(INT64_MAX, INT64_MIN, INT64_MIN).numel(), 2);
  EXPECT_THROW(arange(INT64_MIN, INT64_MAX), Error);
  EXPECT_THROW(arange(0.0, std::nan(""), 1.0), Error);
}

TEST(Tensor, CopiesValuesIn) {
  const std::vector<float> values{1, 2, 3, 4};
  const Tensor x = tensor(values, Shape{2, 2});
  EXPECT_EQ(x.shape(), (Shape{2, 2}));
  EXPECT_EQ(x.to_vector<float>(), values);
  EXPECT_EQ(tensor({1.0, 2.0}).dtype(), kFloat64);
  EXPECT_EQ(tensor<int64_t>({1, 2}).to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
  EXPECT_THROW(tensor(values, Shape{3}), Error);
}

TEST(Tensor, SharesMemoryOfTheCaller) {
  std::vector<float> values{1, 2, 3, 4};
  const Tensor x = as_tensor(values, Shape{2, 2});
  values[3] = 40;
  EXPECT_EQ(x.to_vector<float>()[3], 40);
  x.fill_(7);
  EXPECT_EQ(values[0], 7);
  EXPECT_THROW(as_tensor(values, Shape{5}), Error);

  const Tensor column = from_blob(values.data(), {2}, kFloat32, {}, Strides{2});
  values[2] = 9;
  EXPECT_EQ(column.to_vector<float>(), (std::vector<float>{7, 9}));
  EXPECT_THROW(from_blob(nullptr, {1}, kFloat32), Error);
  EXPECT_THROW(from_blob(values.data(), {2}, kFloat32, {}, Strides{1, 1}), Error);
  EXPECT_THROW(from_blob(values.data(), {2}, kFloat32, {}, Strides{-1}), Error);
}

TEST(Tensor, TellsTheCallerWhenTheLastTensorLetsGo) {
  float value = 1;
  int released = 0;
  {
    Tensor view;
    {
      const Tensor x = from_blob(&value, {1}, kFloat32, [&] { ++released; });
      view = x.detach();
    }
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  from_blob(&value, {1}, kFloat32, [] { throw Error("dropped"); });
}

TEST(Tensor, ReadsOneElement) {
  EXPECT_EQ(tensor({2.5}).item(), 2.5);
  EXPECT_EQ(tensor<int64_t>({-3}).item<int64_t>(), -3);
  EXPECT_EQ(tensor<Half>({Half(0.5f)}).item<float>(), 0.5f);
  EXPECT_EQ(full({1, 1}, 1, kBool).item<int>(), 1);
  EXPECT_EQ(error_of([] {
              empty({2, 1}).item();
            }),
            "item: needs exactly one element: got shape [2, 1]: to_vector() gives all");
  EXPECT_THROW(empty({0}).item(), Error);
}

TEST(Tensor, ChecksTheElementType) {
  const Tensor x = zeros({2});
  EXPECT_EQ(error_of([&] { x.data<double>(); }),
            "data: wrong element type: asked for float64, the tensor is float32");
  EXPECT_THROW(x.to_vector<int64_t>(), Error);
}

TEST(Tensor, IsAHandle) {
  const Tensor x = zeros({2});
  const Tensor y = x;
  y.fill_(3);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_TRUE(x.is_same(y));
  EXPECT_FALSE(x.is_same(x.detach()));
  EXPECT_EQ(x.data<float>(), x.detach().data<float>());
  EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, UndefinedIsAnErrorThatNamesWhatUsedIt) {
  const Tensor none, x = ones({2, 2});
  const auto said = [](const auto& use) {
    const std::string text = error_of(use);
    EXPECT_NE(text.find(": a tensor is undefined: got a default-constructed one, expected one with "
                        "elements"),
              std::string::npos)
        << text;
    return text.substr(0, text.find(':'));
  };
  EXPECT_EQ(said([&] { none.data<float>(); }), "data");
  EXPECT_EQ(said([&] { relu(none); }), "relu");
  EXPECT_EQ(said([&] { add(none, x); }), "add");
  EXPECT_EQ(said([&] { add(x, none); }), "add");
  EXPECT_EQ(said([&] { x.add_(none); }), "add_");
  EXPECT_EQ(said([&] { none.sum(); }), "sum");
  EXPECT_EQ(said([&] { none.softmax(1); }), "softmax");
  EXPECT_EQ(said([&] { x.matmul(none); }), "matmul");
  EXPECT_EQ(said([&] { none.reshape({1}); }), "reshape");
  EXPECT_EQ(said([&] { none.select(0, 0); }), "select");
  EXPECT_EQ(said([&] { cat({x, none}); }), "cat");
  EXPECT_EQ(said([&] { cross_entropy(none, x); }), "cross_entropy");
  EXPECT_EQ(said([&] { layer_norm(none, {2}); }), "layer_norm");
  EXPECT_EQ(said([&] { conv2d(none, x); }), "conv2d");
  EXPECT_EQ(said([&] { embedding(none, x); }), "embedding");
}

TEST(Tensor, CountsChangesInPlacePerStorage) {
  const Tensor x = zeros({4});
  const Tensor half = x.narrow(0, 0, 2);
  const Tensor detached = x.detach();
  const uint64_t before = x.version();
  half.fill_(1);
  EXPECT_EQ(x.version(), before + 1);
  EXPECT_EQ(detached.version(), before + 1);
  x.add_(1).mul_(2);
  EXPECT_EQ(half.version(), before + 3);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{4, 4, 2, 2}));
  EXPECT_EQ((x + 1).version(), 0u);
  EXPECT_EQ(x.version(), before + 3);
}

TEST(Tensor, ReadsStridedElementsInRowMajorOrder) {
  const Tensor x = arange(0, 6).reshape({2, 3});
  EXPECT_EQ(x.t().to_vector<int64_t>(), (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(x.slice(1, 0, 3, 2).to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 3, 5}));
  EXPECT_FALSE(x.t().is_contiguous());
  EXPECT_TRUE(x.t().contiguous().is_contiguous());
  EXPECT_TRUE(x.contiguous().is_same(x));
}

TEST(Tensor, ConvertsTypes) {
  const Tensor x = tensor<float>({-1.5f, 0, 2.75f});
  EXPECT_EQ(x.to(kInt32).to_vector<int32_t>(), (std::vector<int32_t>{-1, 0, 2}));
  EXPECT_EQ(x.to(kFloat64).to_vector<double>(), (std::vector<double>{-1.5, 0, 2.75}));
  EXPECT_EQ(x.to(kBool).to(kUint8).to_vector<uint8_t>(), (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(x.to(kBFloat16).to(kFloat32).to_vector<float>(), x.to_vector<float>());
  EXPECT_TRUE(x.to(kFloat32).is_same(x));
  EXPECT_TRUE(x.cpu().is_same(x));
}

#ifndef WICK_HAS_CUDA
TEST(Tensor, SaysThatThereIsNoGpu) {
  EXPECT_NE(error_of([] { empty({1}, kFloat32, cuda_device()); }).find("CUDA"), std::string::npos);
  EXPECT_THROW(zeros({1}).to(cuda_device()), Error);
}
#endif

TEST(Tensor, OnlyFloatingLeavesRequireGradients) {
  EXPECT_THROW(empty({1}, kInt64).set_requires_grad(), Error);
  EXPECT_THROW(empty({1}, kBool).set_requires_grad(), Error);
  const Tensor x = zeros({1}).set_requires_grad();
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
  const Tensor y = x * 2;
  EXPECT_FALSE(y.is_leaf());
  EXPECT_THROW(y.set_requires_grad(false), Error);
  x.set_requires_grad(false);
  EXPECT_FALSE(x.requires_grad());
}

TEST(Tensor, LeavesFrozenForAWhileKeepTheirGraphsAndHooks) {
  const Tensor x = full({1}, 3).set_requires_grad();
  int updates = 0;
  x.register_hook([](const Tensor& gradient) { return gradient * 10; });
  x.register_post_accumulate_grad_hook([&](const Tensor&) { ++updates; });
  const Tensor y = x * x, z = x * 2;
  (x * 1).backward();
  EXPECT_EQ(x.grad().item(), 10);
  x.set_requires_grad(false);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE((x * 2).requires_grad());
  z.backward();  // a gradient that nothing takes
  x.set_requires_grad();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(updates, 1);
  y.backward();
  EXPECT_EQ(x.grad().item(), 60);
  (x * 1).backward();
  EXPECT_EQ(x.grad().item(), 70);
  EXPECT_EQ(updates, 3);
}

}  // namespace
}  // namespace wick
