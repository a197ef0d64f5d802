#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "wick/core/tensor.h"

namespace wick {
namespace {

TEST(Print, AlignsNumbers) {
  EXPECT_EQ(to_string(tensor<float>({1, -2.5f, 3.25f, 100}, Shape{2, 2})),
            "tensor([[  1.0000,  -2.5000],\n"
            "        [  3.2500, 100.0000]])");
  EXPECT_EQ(to_string(tensor<float>({1, -2, 30})), "tensor([ 1., -2., 30.])");
  EXPECT_EQ(to_string(tensor<int64_t>({1, -20})), "tensor([  1, -20], int64)");
  EXPECT_EQ(to_string(tensor<bool>({true, false})), "tensor([ true, false], bool)");
  EXPECT_EQ(to_string(tensor<double>({0.5})), "tensor([0.5000], float64)");
}

TEST(Print, UsesExponentsWhereSizesDiffer) {
  EXPECT_EQ(to_string(tensor<float>({1e-6f, 1})), "tensor([1.0000e-06, 1.0000e+00])");
  EXPECT_EQ(to_string(tensor<float>({0.5f, 1000})), "tensor([5.0000e-01, 1.0000e+03])");
  EXPECT_EQ(to_string(tensor<float>({2e9f})), "tensor([2.0000e+09])");
  EXPECT_EQ(to_string(tensor<float>({1, 0, 1000})), "tensor([   1.,    0., 1000.])");
}

TEST(Print, ShowsWhatIsNotFinite) {
  EXPECT_EQ(to_string(tensor<float>({NAN, -INFINITY, 1, INFINITY})),
            "tensor([ nan, -inf,   1.,  inf])");
  EXPECT_EQ(to_string(tensor<float>({NAN, 0.5f})), "tensor([   nan, 0.5000])");
}

TEST(Print, RankZeroAndEmpty) {
  EXPECT_EQ(to_string(scalar_tensor(2.5)), "tensor(2.5000)");
  EXPECT_EQ(to_string(scalar_tensor(7, kInt32)), "tensor(7, int32)");
  EXPECT_EQ(to_string(empty({2, 0})), "tensor([], shape [2, 0])");
  EXPECT_EQ(to_string(Tensor()), "tensor(undefined)");
}

TEST(Print, SeparatesMatricesByEmptyLines) {
  EXPECT_EQ(to_string(zeros({2, 1, 2})),
            "tensor([[[0., 0.]],\n"
            "\n"
            "        [[0., 0.]]])");
}

TEST(Print, BreaksLongRows) {
  const std::string text = to_string(arange(0, 40));
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,");
  EXPECT_EQ(text.substr(text.find('\n') + 1, 11), "        18,");
}

TEST(Print, AbbreviatesBeyondAThousandElements) {
  EXPECT_EQ(to_string(arange(0, 1001)),
            "tensor([   0,    1,    2, ...,  998,  999, 1000], int64, shape [1001])");
  const std::string text = to_string(zeros({1000, 1000}));
  EXPECT_EQ(text,
            "tensor([[0., 0., 0., ..., 0., 0., 0.],\n"
            "        [0., 0., 0., ..., 0., 0., 0.],\n"
            "        [0., 0., 0., ..., 0., 0., 0.],\n"
            "        ...,\n"
            "        [0., 0., 0., ..., 0., 0., 0.],\n"
            "        [0., 0., 0., ..., 0., 0., 0.],\n"
            "        [0., 0., 0., ..., 0., 0., 0.]], shape [1000, 1000])");
  EXPECT_EQ(to_string(zeros({1000})).find("..."), std::string::npos);
}

TEST(Print, FollowsStridesAndNamesWhatRequiresGradients) {
  const Tensor x = tensor<float>({1, 2, 3, 4}, Shape{2, 2});
  EXPECT_EQ(to_string(x.t()),
            "tensor([[1., 3.],\n"
            "        [2., 4.]])");
  EXPECT_EQ(to_string(ones({1}).set_requires_grad()), "tensor([1.], requires_grad)");
  std::ostringstream out;
  out << tensor<Half>({Half(1.5f)});
  EXPECT_EQ(out.str(), "tensor([1.5000], float16)");
}

}  // namespace
}  // namespace wick
