#include "wick/core/ops/conv.h"

#include <gtest/gtest.h>

#include "wick/core/apply.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/random.h"
#include "wick/tests/core/ops/conv_reference.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// A case of conv2d with one setting. Inputs of a sample: x, weight and perhaps a bias.
OpCase conv_case(const char* name, const ConvSetting& setting, const Samples& samples) {
  OpCase c;
  c.name = name;
  c.samples = samples;
  c.call = [setting](const Tensors& in) -> Tensors {
    return {conv2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), setting.stride, setting.padding,
                   setting.dilation, setting.groups)};
  };
  c.reference = [setting](const Arrays& in) -> Arrays {
    return {conv2d_reference(in[0], in[1], in.size() > 2 ? &in[2] : nullptr, setting)};
  };
  c.tolerance = Tolerance::matmul();
  c.second_order = true;
  return c;
}

const OpCaseRegistration plain(conv_case("conv2d", {},
                                         {{normal({2, 3, 5, 6}), normal({4, 3, 3, 2}), normal({4})},
                                          {normal({1, 1, 1, 1}), normal({1, 1, 1, 1})},
                                          {normal({0, 2, 4, 4}), normal({3, 2, 3, 3}), normal({3})},
                                          {normal({1, 5, 3, 7}), normal({2, 5, 3, 7}), normal({2})},
                                          {normal({3, 17, 4, 5}), normal({9, 17, 1, 1}),
                                           normal({9})}}),
                               __FILE__, __LINE__);
const OpCaseRegistration padded(
    conv_case("conv2d_padded", {.padding = {1, 1}},
              {{normal({2, 3, 7, 5}), normal({8, 3, 3, 3}), normal({8})},
               {normal({2, 16, 6, 5}), normal({16, 16, 3, 3}), normal({16})}}),
    __FILE__, __LINE__);
const OpCaseRegistration strided_conv(conv_case("conv2d_strided",
                                                {.stride = {2, 3}, .padding = {1, 2}},
                                                {{normal({2, 3, 9, 8}), normal({5, 3, 3, 4})},
                                                 {normal({1, 2, 8, 8}), normal({4, 2, 1, 1})}}),
                                      __FILE__, __LINE__);
const OpCaseRegistration dilated(
    conv_case("conv2d_dilated", {.padding = {2, 1}, .dilation = {2, 3}},
              {{normal({2, 3, 9, 10}), normal({4, 3, 3, 3}), normal({4})}}),
    __FILE__, __LINE__);
const OpCaseRegistration grouped(conv_case("conv2d_grouped", {.padding = {1, 1}, .groups = 3},
                                           {{normal({2, 6, 5, 5}), normal({9, 2, 3, 3}),
                                             normal({9})}}),
                                 __FILE__, __LINE__);
const OpCaseRegistration depthwise(
    conv_case("conv2d_depthwise", {.stride = {2, 2}, .padding = {1, 1}, .groups = 7},
              {{normal({2, 7, 6, 7}), normal({7, 1, 3, 3}), normal({7})}}),
    __FILE__, __LINE__);

WICK_OP_CASE(
    conv1d,
    .samples = {{normal({2, 3, 11}), normal({4, 3, 3}), normal({4})},
                {normal({1, 1, 4}), normal({2, 1, 4}), normal({2})}},
    .call = [](const Tensors& in) -> Tensors { return {conv1d(in[0], in[1], in[2], 2, 1)}; },
    .reference = [](const Arrays& in) -> Arrays {
      HostArray x = in[0], w = in[1];
      x.shape.insert(2, 1);
      w.shape.insert(2, 1);
      HostArray y = conv2d_reference(x, w, &in[2], {.stride = {1, 2}, .padding = {0, 1}});
      y.shape.erase(2);
      return {y};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

OpCase transpose_case(const char* name, const Samples& samples) {
  const ConvSetting setting{.stride = {2, 2}, .padding = {1, 1}, .groups = 2};
  OpCase c;
  c.name = name;
  c.samples = samples;
  c.call = [](const Tensors& in) -> Tensors {
    return {conv_transpose2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), {2, 2}, {1, 1}, {1, 0},
                             2)};
  };
  c.reference = [setting](const Arrays& in) -> Arrays {
    return {conv_transpose2d_reference(in[0], in[1], in.size() > 2 ? &in[2] : nullptr, setting,
                                       {1, 0})};
  };
  c.tolerance = Tolerance::matmul();
  c.second_order = true;
  return c;
}

const OpCaseRegistration transpose(transpose_case("conv_transpose2d",
                                                  {{normal({2, 4, 3, 4}), normal({4, 2, 3, 3})},
                                                   {normal({1, 2, 1, 1}), normal({2, 3, 3, 3})}}),
                                   __FILE__, __LINE__);
// Terms of one sign: in half types the bias is added to a rounded sum.
const OpCaseRegistration transpose_bias(transpose_case("conv_transpose2d_bias",
                                                       {{uniform({2, 4, 3, 4}, 0.5, 2),
                                                         uniform({4, 2, 3, 3}, 0.5, 2),
                                                         uniform({4}, 0.5, 2)}}),
                                        __FILE__, __LINE__);

// output_padding of a stride and more, which the dilation allows.
WICK_OP_CASE(
    conv_transpose2d_wide,
    .samples = {{normal({2, 2, 3, 4}), normal({2, 3, 3, 2})},
                {normal({1, 1, 1, 1}), normal({1, 2, 1, 3})}},
    .call = [](const Tensors& in) -> Tensors {
      return {conv_transpose2d(in[0], in[1], {}, {1, 2}, {0, 1}, {2, 3}, 1, {3, 4})};
    },
    .reference = [](const Arrays& in) -> Arrays {
      const ConvSetting setting{.stride = {1, 2}, .padding = {0, 1}, .dilation = {3, 4}};
      return {conv_transpose2d_reference(in[0], in[1], nullptr, setting, {2, 3})};
    },
    .tolerance = Tolerance::matmul(), .second_order = true);

TEST(Conv2d, TakesOneImageWithoutABatch) {
  const Tensor x = randn({4, 6, 5}), one = x.unsqueeze(0);
  const Tensor w = randn({2, 4, 3, 3}), bias = ones({2});
  EXPECT_TRUE(equal(conv2d(x, w, bias, {2}, {1}), conv2d(one, w, bias, {2}, {1})[0]));
  const Tensor back = w.transpose(0, 1);
  EXPECT_TRUE(
      equal(conv_transpose2d(x, back, bias, {2}), conv_transpose2d(one, back, bias, {2})[0]));
  const Tensor line = randn({3, 9});
  EXPECT_TRUE(equal(conv1d(line, w[0], {}, 2, 1), conv1d(line.unsqueeze(0), w[0], {}, 2, 1)[0]));
}

TEST(Conv2d, CountsFlops) {
  const Tensor x = ones({2, 4, 8, 8}).set_requires_grad();
  const Tensor w = ones({6, 2, 3, 3}).set_requires_grad();
  FlopCounter counter;
  const Tensor y = conv2d(x, w, {}, {1}, {1}, {1}, 2);
  const double forward = 2.0 * 2 * 6 * 8 * 8 * 2 * 9;
  EXPECT_EQ(counter.flops(), forward);
  y.backward(ones_like(y));
  EXPECT_EQ(counter.flops(), 3 * forward);
}

TEST(Conv2d, GivesChannelsLast) {
  for (const Shape& shape : {Shape{2, 3, 8, 8}, Shape{2, 16, 8, 8}}) {
    const Tensor x = ones(shape).set_requires_grad();
    const Tensor w = ones({16, shape[1], 3, 3}).set_requires_grad();
    const Tensor y = conv2d(x, w);
    EXPECT_TRUE(y.is_contiguous(MemoryFormat::kChannelsLast));
    const std::vector<Tensor> grads = grad({y}, {x, w}, {ones_like(y)});
    EXPECT_TRUE(grads[0].is_contiguous(MemoryFormat::kChannelsLast));
    EXPECT_TRUE(grads[1].is_contiguous(MemoryFormat::kChannelsLast));
  }
}

TEST(Conv2d, ComputesOnlyWantedGradients) {
  const Tensor x = ones({2, 4, 8, 8});
  const Tensor w = ones({6, 4, 3, 3}).set_requires_grad();
  const Tensor y = conv2d(x, w);
  FlopCounter counter;
  y.backward(ones_like(y));
  EXPECT_EQ(counter.flops(), 2.0 * static_cast<double>(y.numel()) * 4 * 9);
  EXPECT_FALSE(x.grad().defined());
}

// What `call` throws, or nothing.
TEST(Conv2d, RejectsWhatDoesNotFit) {
  const Tensor x = ones({2, 4, 8, 8}), w = ones({6, 4, 3, 3});
  EXPECT_EQ(error_of([&] {
              conv2d(x, ones({6, 3, 3, 3}));
            }),
            "conv2d: channels differ: got x [2, 4, 8, 8] and weight [6, 3, 3, 3] with 1 groups, "
            "expected 3 channels in x");
  EXPECT_EQ(error_of([&] { conv2d(x, w, ones({5})); }),
            "conv2d: bias has the wrong shape: got [5], expected [6]");
  EXPECT_EQ(error_of([&] {
              conv2d(x, ones({6, 4, 9, 3}));
            }),
            "conv2d: kernel is larger than the padded image: got x [2, 4, 8, 8], weight "
            "[6, 4, 9, 3], padding [0, 0], dilation [1, 1]");
  EXPECT_EQ(error_of([&] {
              conv2d(ones({8, 8}), w);
            }),
            "conv2d: x needs 4 axes (N, C, H, W) or 3 (C, H, W): got shape [8, 8]");
  EXPECT_EQ(error_of([&] { conv2d(x, w, {}, {0}); }), "conv2d: stride must be at least 1: got [0]");
  EXPECT_EQ(error_of([&] { conv2d(x, w, {}, {1}, {-1}); }),
            "conv2d: padding must be at least 0: got [-1]");
  EXPECT_EQ(error_of([&] {
              conv2d(x, w, {}, {1, 1, 1});
            }),
            "conv2d: stride needs 1 or 2 entries: got [1, 1, 1]");
  EXPECT_EQ(error_of([&] { conv2d(x, w, {}, {1}, {0}, {1}, 3); }),
            "conv2d: channels are not divisible by groups: got x [2, 4, 8, 8], weight "
            "[6, 4, 3, 3], groups 3");
  EXPECT_EQ(error_of([&] { conv2d(x, w.to(kFloat64)); }),
            "conv2d: dtypes differ: got float32 and float64");
  EXPECT_EQ(error_of([&] { conv2d(x.to(kInt64), w.to(kInt64)); }),
            "conv2d: needs a floating dtype: got int64");
  EXPECT_EQ(error_of([&] {
              conv_transpose2d(x, ones({4, 2, 3, 3}), {}, {2}, {0}, {2});
            }),
            "conv_transpose2d: output_padding must be less than the stride or the dilation: got "
            "[2, 2], stride [2, 2], dilation [1, 1]");
  EXPECT_EQ(error_of([&] {
              conv_transpose2d(x, ones({5, 2, 3, 3}));
            }),
            "conv_transpose2d: channels differ: got x [2, 4, 8, 8] and weight [5, 2, 3, 3], "
            "expected 5 channels in x");
}

}  // namespace
}  // namespace wick::testing
