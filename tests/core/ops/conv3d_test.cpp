#include <gtest/gtest.h>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/random.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"

namespace wick::testing {
namespace {

struct VolumeSetting {
  Shape stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  int64_t groups = 1;
};

size_t place_in(const Shape& shape, const Shape& at) {
  int64_t place = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) place = place * shape[axis] + at[axis];
  return static_cast<size_t>(place);
}

// Calls `visit(x index, weight index, y index)` for every product of the convolution.
template <class Visit>
void for_each_volume_product(const Shape& x, const Shape& w, const Shape& y, const VolumeSetting& s,
                             const Visit& visit) {
  const int64_t per_group = w[0] / s.groups;
  for (int64_t i = 0; i < y.numel(); ++i) {
    Shape to = y;
    for (int64_t rest = i, axis = 4; axis >= 0; --axis) {
      to[static_cast<int>(axis)] = rest % y[static_cast<int>(axis)];
      rest /= y[static_cast<int>(axis)];
    }
    for (int64_t c = 0; c < w[1]; ++c) {
      for (int64_t t = 0; t < w[2] * w[3] * w[4]; ++t) {
        const Shape tap{t / (w[3] * w[4]), t / w[4] % w[3], t % w[4]};
        Shape from{to[0], to[1] / per_group * w[1] + c};
        bool inside = true;
        for (const int axis : {0, 1, 2}) {
          const int64_t at =
              to[axis + 2] * s.stride[axis] - s.padding[axis] + tap[axis] * s.dilation[axis];
          inside = inside && at >= 0 && at < x[axis + 2];
          from.push_back(at);
        }
        if (!inside) continue;
        visit(place_in(x, from), place_in(w, {to[1], c, tap[0], tap[1], tap[2]}),
              static_cast<size_t>(i));
      }
    }
  }
}

HostArray with_bias(const Shape& shape, const HostArray& bias) {
  HostArray y{shape, {}};
  const int64_t volume = shape[2] * shape[3] * shape[4];
  for (int64_t i = 0; i < shape.numel(); ++i) {
    y.values.push_back(bias.values[static_cast<size_t>(i / volume % shape[1])]);
  }
  return y;
}

OpCase conv3d_case(const char* name, const VolumeSetting& s, const Samples& samples) {
  OpCase c;
  c.name = name;
  c.samples = samples;
  c.call = [s](const Tensors& in) -> Tensors {
    return {conv3d(in[0], in[1], in[2], s.stride, s.padding, s.dilation, s.groups)};
  };
  c.reference = [s](const Arrays& in) -> Arrays {
    const Shape &x = in[0].shape, &w = in[1].shape;
    Shape shape{x[0], w[0]};
    for (const int axis : {0, 1, 2}) {
      const int64_t reach = s.dilation[axis] * (w[axis + 2] - 1) + 1;
      shape.push_back((x[axis + 2] + 2 * s.padding[axis] - reach) / s.stride[axis] + 1);
    }
    HostArray y = with_bias(shape, in[2]);
    for_each_volume_product(x, w, shape, s, [&](size_t i, size_t j, size_t k) {
      y.values[k] += in[0].values[i] * in[1].values[j];
    });
    return {y};
  };
  c.tolerance = Tolerance::matmul();
  c.second_order = true;
  c.flops = [s](const Tensors& in) {
    int64_t products = in[1].numel() * in[0].size(0);
    for (const int axis : {0, 1, 2}) {
      const int64_t reach = s.dilation[axis] * (in[1].size(axis + 2) - 1) + 1;
      products *= (in[0].size(axis + 2) + 2 * s.padding[axis] - reach) / s.stride[axis] + 1;
    }
    return 2.0 * static_cast<double>(products);
  };
  return c;
}

OpCase transposed3d_case(const char* name, const VolumeSetting& s, const Shape& output_padding,
                         const Samples& samples) {
  OpCase c;
  c.name = name;
  c.samples = samples;
  c.call = [=](const Tensors& in) -> Tensors {
    return {conv_transpose3d(in[0], in[1], {}, s.stride, s.padding, output_padding, s.groups,
                             s.dilation)};
  };
  c.reference = [=](const Arrays& in) -> Arrays {
    const Shape &x = in[0].shape, &w = in[1].shape;
    Shape shape{x[0], w[1] * s.groups};
    for (const int axis : {0, 1, 2}) {
      shape.push_back((x[axis + 2] - 1) * s.stride[axis] - 2 * s.padding[axis] +
                      s.dilation[axis] * (w[axis + 2] - 1) + output_padding[axis] + 1);
    }
    HostArray y{shape, std::vector<double>(static_cast<size_t>(shape.numel()))};
    for_each_volume_product(shape, w, x, s, [&](size_t i, size_t j, size_t k) {
      y.values[i] += in[0].values[k] * in[1].values[j];
    });
    return {y};
  };
  c.tolerance = Tolerance::matmul();
  c.second_order = true;
  return c;
}

const OpCaseRegistration volume_plain(
    conv3d_case("conv3d", {},
                {{normal({2, 3, 4, 3, 5}), normal({4, 3, 3, 2, 2}), normal({4})},
                 {normal({1, 1, 1, 1, 1}), normal({1, 1, 1, 1, 1}), normal({1})},
                 {normal({0, 2, 3, 3, 3}), normal({3, 2, 2, 2, 2}), normal({3})}}),
    __FILE__, __LINE__);
const OpCaseRegistration volume_all(
    conv3d_case("conv3d_strided_dilated_grouped",
                {.stride = {2, 1, 2}, .padding = {2, 1, 0}, .dilation = {2, 1, 3}, .groups = 2},
                {{normal({2, 4, 5, 4, 7}), normal({6, 2, 2, 3, 2}), normal({6})}}),
    __FILE__, __LINE__);
const OpCaseRegistration volume_transposed(transposed3d_case("conv_transpose3d", {}, {0, 0, 0},
                                                             {{normal({2, 3, 2, 3, 2}),
                                                               normal({3, 4, 2, 2, 3})}}),
                                           __FILE__, __LINE__);
const OpCaseRegistration volume_transposed_all(
    transposed3d_case(
        "conv_transpose3d_strided_dilated_grouped",
        {.stride = {3, 2, 1}, .padding = {1, 2, 0}, .dilation = {1, 2, 2}, .groups = 2}, {2, 1, 1},
        {{normal({1, 4, 3, 3, 2}), normal({4, 3, 2, 3, 2})}}),
    __FILE__, __LINE__);

// Gradients of an image that its stride does not cover to the end.
TEST(Conv3d, GivesNoGradientToWhatItDoesNotSee) {
  const Tensor x = randn({1, 2, 6, 6, 6}).set_requires_grad(), w = randn({3, 2, 2, 2, 2});
  conv3d(x, w, {}, 3).sum().backward();
  EXPECT_TRUE(equal(x.grad().narrow(2, 5, 1), zeros({1, 2, 1, 6, 6})));
  EXPECT_FALSE(equal(x.grad().narrow(2, 4, 1), zeros({1, 2, 1, 6, 6})));
}

TEST(Conv, KeepsTheSize) {
  const Tensor x = randn({2, 4, 7, 6, 5}), w = randn({4, 2, 3, 2, 4}), b = randn({4});
  const Tensor y = conv3d(x, w, b, 1, ConvPadding::kSame, {1, 2, 1}, 2);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_TRUE(equal(y, conv3d(pad(x, {1, 2, 1, 1, 1, 1}), w, b, 1, 0, {1, 2, 1}, 2)));
  EXPECT_TRUE(equal(conv3d(x, w, b, 2, ConvPadding::kValid, 1, 2), conv3d(x, w, b, 2, 0, 1, 2)));
  const Tensor image = x.select(2, 0), signal = image.select(2, 0);
  EXPECT_TRUE(equal(conv2d(image, w.select(2, 0), b, 1, ConvPadding::kSame, {1, 3}, 2),
                    conv2d(pad(image, {4, 5, 0, 1}), w.select(2, 0), b, 1, 0, {1, 3}, 2)));
  EXPECT_TRUE(equal(conv1d(signal, w.select(2, 0).select(2, 0), b, 1, ConvPadding::kSame, 1, 2),
                    conv1d(pad(signal, {1, 2}), w.select(2, 0).select(2, 0), b, 1, 0, 1, 2)));
  EXPECT_EQ(error_of([&] { conv3d(x, w, b, 2, ConvPadding::kSame, 1, 2); }),
            "conv3d: padding that keeps the size needs a stride of 1: got [2]");
}

TEST(ConvTranspose1d, IsThatOfOneRow) {
  const Tensor x = randn({2, 4, 9}), w = randn({4, 3, 5}), b = randn({6});
  EXPECT_TRUE(
      equal(conv_transpose1d(x, w, b, 3, 1, 2, 2, 2),
            conv_transpose2d(x.unsqueeze(2), w.unsqueeze(2), b, {1, 3}, {0, 1}, {0, 2}, 2, {1, 2})
                .squeeze(2)));
  EXPECT_EQ(conv_transpose1d(x[0], w).shape(), (Shape{3, 13}));
  EXPECT_EQ(error_of([&] { conv_transpose1d(x, w.unsqueeze(0)); }),
            "conv_transpose1d: weight needs 3 axes: got shape [1, 4, 3, 5]");
}

TEST(ConvTranspose3d, AddsItsBias) {
  const Tensor x = randn({2, 3, 2, 3, 2}), w = randn({3, 4, 2, 2, 3}), b = randn({4});
  EXPECT_TRUE(equal(conv_transpose3d(x, w, b), conv_transpose3d(x, w) + b.reshape({4, 1, 1, 1})));
}

TEST(Conv3d, TakesOneVolumeWithoutABatch) {
  const Tensor x = randn({3, 4, 5, 4}), w = randn({2, 3, 2, 2, 2}), t = randn({3, 2, 2, 2, 2});
  EXPECT_TRUE(equal(conv3d(x, w), conv3d(x.unsqueeze(0), w)[0]));
  EXPECT_TRUE(equal(conv_transpose3d(x, t), conv_transpose3d(x.unsqueeze(0), t)[0]));
}

TEST(Conv3d, RejectsWhatDoesNotFit) {
  const Tensor x = ones({1, 2, 3, 3, 3}), w = ones({4, 2, 2, 2, 2});
  EXPECT_EQ(error_of([&] {
              conv3d(x, ones({4, 2, 2, 2}));
            }),
            "conv3d: weight needs 5 axes: got shape [4, 2, 2, 2]");
  EXPECT_EQ(error_of([&] {
              conv3d(ones({1, 2, 3}), w);
            }),
            "conv3d: x needs 5 axes (N, C, D, H, W) or 4 (C, D, H, W): got shape [1, 2, 3]");
  EXPECT_EQ(error_of([&] { conv3d(x, w.to(kFloat64)); }),
            "conv3d: dtypes differ: got float32 and float64");
  EXPECT_EQ(error_of([&] { conv3d(x, w, ones({3})); }),
            "conv3d: bias has the wrong shape: got [3], expected [4]");
  EXPECT_EQ(error_of([&] {
              conv3d(x, w, {}, 1, 0, {1, 1, 3});
            }),
            "conv3d: kernel is larger than the padded volume: got x [1, 2, 3, 3, 3], weight "
            "[4, 2, 2, 2, 2], padding [0, 0, 0], dilation [1, 1, 3]");
  EXPECT_EQ(error_of([&] { conv_transpose3d(x, w); }),
            "conv_transpose3d: channels differ: got x [1, 2, 3, 3, 3] and weight [4, 2, 2, 2, 2], "
            "expected 4 channels in x");
  EXPECT_EQ(error_of([&] {
              conv_transpose3d(x, ones({2, 1, 2, 2, 2}), {}, 1, 0, 1);
            }),
            "conv_transpose3d: output_padding must be less than the stride or the dilation: got "
            "[1, 1, 1], stride [1, 1, 1], dilation [1, 1, 1]");
}

}  // namespace
}  // namespace wick::testing
