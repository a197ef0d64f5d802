#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "wick/core/conv_plan.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/detail/conv_images.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/plans.h"
#include "wick/tests/core/ops/conv_reference.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

// Inputs: x, weight, bias, and a residual if there is one.
OpCase fused_case(const char* name, const ConvSetting& setting, bool relu, const Samples& samples) {
  OpCase c;
  c.name = name;
  c.covers = {"conv2d_fused"};
  c.samples = samples;
  c.call = [=](const Tensors& in) -> Tensors {
    const ConvSteps steps{setting.stride, setting.padding, setting.dilation, setting.groups};
    return {conv2d_fused(in[0], in[1], in[2], in.size() > 3 ? in[3] : Tensor(), relu, steps)};
  };
  c.reference = [=](const Arrays& in) -> Arrays {
    HostArray y = conv2d_reference(in[0], in[1], &in[2], setting);
    for (size_t i = 0; i < y.values.size(); ++i) {
      if (in.size() > 3) y.values[i] += in[3].values[i];
      if (relu) y.values[i] = std::max(y.values[i], 0.0);
    }
    return {y};
  };
  c.dtypes = {kFloat64, kFloat32};  // 16 bits are rounded after each op, as below
  c.tolerance = Tolerance::matmul();
  c.differentiable = false;
  return c;
}

const OpCaseRegistration with_relu(
    fused_case(
        "conv2d_fused", {.padding = {1, 1}}, true,
        {{normal({2, 3, 5, 6}), normal({4, 3, 3, 3}), normal({4}), normal({2, 4, 5, 6})},
         {normal({1, 16, 7, 7}), normal({33, 16, 3, 3}), normal({33}), normal({1, 33, 7, 7})},
         {normal({7, 16, 6, 5}), normal({16, 16, 3, 3}), normal({16}), normal({7, 16, 6, 5})},
         {normal({0, 2, 4, 4}), normal({3, 2, 3, 3}), normal({3}), normal({0, 3, 4, 4})},
         {normal({1, 1, 1, 1}), normal({1, 1, 3, 3}), normal({1}), normal({1, 1, 1, 1})}}),
    __FILE__, __LINE__);
const OpCaseRegistration without_residual(
    fused_case("conv2d_fused_relu", {.stride = {2, 2}, .padding = {3, 3}}, true,
               {{normal({2, 3, 19, 17}), normal({17, 3, 7, 7}), normal({17})}}),
    __FILE__, __LINE__);
const OpCaseRegistration without_relu(
    fused_case("conv2d_fused_sum", {.padding = {1, 1}, .groups = 7}, false,
               {{normal({2, 7, 6, 7}), normal({7, 1, 3, 3}), normal({7}), normal({2, 7, 6, 7})}}),
    __FILE__, __LINE__);

struct Layer {
  Shape x, weight;
  int64_t stride = 1, padding = 1, dilation = 1, groups = 1;
};

Tensor image(const Shape& shape) { return randn(shape).contiguous(MemoryFormat::kChannelsLast); }

// Every algorithm, with a packed weight and without, one image and many, results that end within
// tiles, blocks of k and taps outside of the image.
TEST(Conv2dFused, HasTheBitsOfTheSeparateOps) {
  const std::vector<Layer> layers = {
      {{1, 3, 31, 30}, {20, 3, 7, 7}, 2, 3},   {{1, 64, 28, 28}, {128, 64, 3, 3}, 2},
      {{1, 512, 7, 7}, {80, 512, 3, 3}},       {{1, 256, 14, 14}, {32, 256, 3, 3}, 2},
      {{7, 272, 5, 5}, {33, 272, 3, 3}},       {{1, 48, 33, 35}, {64, 48, 3, 3}},
      {{2, 256, 14, 14}, {256, 256, 3, 3}},    {{1, 64, 27, 30}, {48, 64, 3, 3}},
      {{1, 128, 21, 19}, {272, 128, 3, 3}},    {{3, 40, 9, 9}, {24, 20, 3, 3}, 1, 2, 2, 2},
      {{2, 70, 13, 11}, {65, 70, 1, 1}, 1, 0}, {{2, 30, 9, 9}, {30, 1, 3, 3}, 1, 1, 1, 30},
  };
  for (const Layer& layer : layers) {
    SCOPED_TRACE(concat(layer.x, layer.weight));
    const Shape stride{layer.stride, layer.stride}, padding{layer.padding, layer.padding},
        dilation{layer.dilation, layer.dilation};
    const ConvSteps steps{stride, padding, dilation, layer.groups};
    const Tensor x = image(layer.x), weight = image(layer.weight), bias = randn({layer.weight[0]});
    const Tensor before = conv2d(x, weight, bias, stride, padding, dilation, layer.groups);
    const Tensor residual = image(before.shape());
    Conv2dProblem problem{ConvDirection::kForward, kFloat32, layer.x, layer.weight,
                          before.shape(),          {}};
    problem.params = {{layer.stride, layer.stride},
                      {layer.padding, layer.padding},
                      {layer.dilation, layer.dilation},
                      layer.groups};
    ConvAlgorithm algorithms[kConvAlgorithms];
    int count = 0;
    cpu::conv2d_algorithms(problem, kCpu, algorithms, &count);
    for (int i = 0; i < count; ++i) {
      SCOPED_TRACE(kConvAlgorithmNames[static_cast<size_t>(algorithms[i])]);
      conv_plan_set(problem, kCpu, algorithms[i]);
      const Tensor y = conv2d(x, weight, bias, stride, padding, dilation, layer.groups);
      EXPECT_TRUE(allclose(y, before, 1e-3, 1e-3));
      const PackedConvWeight packed = pack_conv_weight(x.shape(), y.shape(), weight, steps);
      EXPECT_EQ(packed.weight.defined(),
                algorithms[i] != ConvAlgorithm::kIm2col && layer.weight[1] > 1);
      for (const PackedConvWeight& form : {PackedConvWeight(), packed}) {
        const auto fused = [&](const Tensor& b, const Tensor& r, bool relu) {
          return conv2d_fused(x, weight, b, r, relu, steps, form);
        };
        EXPECT_TRUE(bit_equal(fused(bias, {}, false), y));
        EXPECT_TRUE(bit_equal(fused(bias, {}, true), y.relu()));
        EXPECT_TRUE(bit_equal(fused(bias, residual, false), y + residual));
        EXPECT_TRUE(bit_equal(fused(bias, residual, true), (y + residual).relu()));
      }
    }
  }
  plans_clear();
}

// Results too large to stay in the caches are written past them.
TEST(Conv2dFused, HasTheBitsOfTheSeparateOpsOfLargeImages) {
  const Tensor x = image({1, 3, 530, 520}), weight = image({64, 3, 7, 7}), bias = randn({64});
  const ConvSteps steps{{2, 2}, {3, 3}, {1, 1}, 1};
  const Tensor y = conv2d(x, weight, bias, {2, 2}, {3, 3}), residual = image(y.shape());
  EXPECT_TRUE(
      bit_equal(conv2d_fused(x, weight, bias, residual, true, steps), (y + residual).relu()));
}

TEST(Conv2dFused, RoundsAsTheSeparateOps) {
  for (const Dtype dtype : {kBFloat16, kFloat16, kFloat64}) {
    for (const int64_t groups : {1, 4}) {
      SCOPED_TRACE(concat(dtype, " ", groups));
      const Tensor x = image({2, 32, 9, 8}).to(dtype), bias = randn({32}).to(dtype);
      const Tensor weight = image({32, 32 / groups, 3, 3}).to(dtype);
      const ConvSteps steps{{1, 1}, {1, 1}, {1, 1}, groups};
      const Tensor y = conv2d(x, weight, bias, {1, 1}, {1, 1}, {1, 1}, groups);
      const Tensor residual = image(y.shape()).to(dtype);
      EXPECT_TRUE(
          bit_equal(conv2d_fused(x, weight, bias, residual, true, steps), (y + residual).relu()));
    }
  }
}

TEST(Conv2dFused, KeepsNan) {
  const Tensor x = full({1, 16, 6, 6}, std::numeric_limits<double>::quiet_NaN());
  const Tensor y =
      conv2d_fused(x, randn({16, 16, 3, 3}), {}, {}, true, {{1, 1}, {1, 1}, {1, 1}, 1});
  EXPECT_TRUE(isnan(y).all().item<bool>());
}

TEST(Conv2dFused, RefusesAResidualOfAnotherShape) {
  expect_error(
      [] {
        conv2d_fused(randn({1, 3, 6, 6}), randn({4, 3, 3, 3}), {}, randn({1, 4, 1, 1}), true,
                     {{1, 1}, {1, 1}, {1, 1}, 1});
      },
      {"conv2d_fused: the residual has the wrong shape: got [1, 4, 1, 1], expected [1, 4, 6, 6]"});
}

}  // namespace
}  // namespace wick::testing
