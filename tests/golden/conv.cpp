#include "wick/core/ops/conv.h"

#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/interpolate.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/pool.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {
namespace {

const Shape kOnes{1, 1};
const Shape kZeros{0, 0};

// x padded so that a convolution keeps its size, the odd element behind.
Tensor padded_to_same(const Tensor& x, const Tensor& weight, const Shape& dilation) {
  std::vector<int64_t> pads;
  for (const int axis : {1, 0}) {
    const int64_t total = dilation[axis] * (weight.size(axis + 2) - 1);
    pads.push_back(total / 2);
    pads.push_back(total - total / 2);
  }
  return pad(x, pads);
}

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, Args& a) {
  const Shape stride = a.repeated("stride", 2, kOnes), dilation = a.repeated("dilation", 2, kOnes);
  const int64_t groups = a.integer("groups", 1);
  if (!a.is_text("padding")) {
    const Shape padding = a.repeated("padding", 2, kZeros);
    return conv2d(x, weight, bias, stride, padding, dilation, groups);
  }
  const std::string padding = a.text("padding");
  const bool same = padding == "same";
  WICK_CHECK((same && stride == kOnes) || padding == "valid", "argument 'padding': got ", padding,
             " with stride ", stride, ", expected integers, valid, or with stride 1 same");
  return conv2d(same ? padded_to_same(x, weight, dilation) : x, weight, bias, stride, kZeros,
                dilation, groups);
}

Tensors plain_conv(const Inputs& in, Args& a) {
  return {convolve(in[0], in[1], in.optional(2), a)};
}

Tensors channels_last(const Inputs& in, Args& a) {
  return {convolve(in[0].contiguous(MemoryFormat::kChannelsLast),
                   in[1].contiguous(MemoryFormat::kChannelsLast), in.optional(2), a)};
}

Tensors one_axis(const Inputs& in, Args& a) {
  const auto single = [&](const char* name, int64_t otherwise) {
    return a.repeated(name, 1, Shape{otherwise})[0];
  };
  const int64_t stride = single("stride", 1), dilation = single("dilation", 1);
  Tensor x = in[0];
  int64_t padding = 0;
  if (!a.is_text("padding")) {
    padding = single("padding", 0);
  } else if (const std::string text = a.text("padding"); text != "valid") {
    WICK_CHECK(text == "same" && stride == 1, "argument 'padding': got ", text, " with stride ",
               stride, ", expected an integer, valid, or with stride 1 same");
    const int64_t total = dilation * (in[1].size(2) - 1);
    x = pad(x, {total / 2, total - total / 2});
  }
  return {conv1d(x, in[1], in.optional(2), stride, padding, dilation, a.integer("groups", 1))};
}

Tensors transposed(const Inputs& in, Args& a) {
  return {conv_transpose2d(in[0], in[1], in.optional(2), a.repeated("stride", 2, kOnes),
                           a.repeated("padding", 2, kZeros),
                           a.repeated("output_padding", 2, kZeros), a.integer("groups", 1),
                           a.repeated("dilation", 2, kOnes))};
}

// The kernel's size where there is none, or an empty list.
Shape pool_stride(Args& a, const Shape& kernel) {
  return a.shape("stride", kernel).empty() ? kernel : a.repeated("stride", 2, kernel);
}

Tensors max_pool(const Inputs& in, Args& a) {
  const Shape kernel = a.repeated("kernel_size", 2);
  return {max_pool2d(in[0], kernel, pool_stride(a, kernel), a.repeated("padding", 2, kZeros),
                     a.repeated("dilation", 2, kOnes), a.flag("ceil_mode", false))};
}

Tensors avg_pool(const Inputs& in, Args& a) {
  const Shape kernel = a.repeated("kernel_size", 2);
  const Shape stride = pool_stride(a, kernel), padding = a.repeated("padding", 2, kZeros);
  const bool count_padding = a.flag("count_include_pad", true), ceil = a.flag("ceil_mode", false);
  return {avg_pool2d(in[0], kernel, stride, padding, ceil, count_padding)};
}

// null in output_size keeps the size.
Tensors adaptive_avg_pool(const Inputs& in, Args& a) {
  const Shape size{in[0].size(-2), in[0].size(-1)};
  return {adaptive_avg_pool2d(in[0], a.shape_or("output_size", size))};
}

Tensors resize(const Inputs& in, Args& a) {
  const std::string mode = a.text("mode", "nearest");
  WICK_CHECK(mode == "nearest" || mode == "bilinear", "argument 'mode': unknown: got ", mode);
  const Interpolation how = mode == "nearest" ? Interpolation::kNearest : Interpolation::kBilinear;
  const bool align = a.flag("align_corners", false);
  if (a.has("size")) return {interpolate(in[0], a.repeated("size", 2), how, align)};
  if (!a.is_list("scale_factor")) {
    return {interpolate(in[0], a.number("scale_factor"), how, align)};
  }
  const std::vector<double> factors = a.numbers("scale_factor", {});
  WICK_CHECK(factors.size() == 2, "argument 'scale_factor': needs 2 numbers: got ", factors.size());
  return {interpolate_by(in[0], {factors[0], factors[1]}, how, align)};
}

const Family conv_family("conv", op_runner({
                                     {"conv2d", plain_conv},
                                     {"conv2d_channels_last", channels_last},
                                     {"conv1d", one_axis},
                                     {"conv_transpose2d", transposed},
                                     {"max_pool2d", max_pool},
                                     {"avg_pool2d", avg_pool},
                                     {"adaptive_avg_pool2d", adaptive_avg_pool},
                                     {"interpolate", resize},
                                 }));

}  // namespace
}  // namespace wick::golden
