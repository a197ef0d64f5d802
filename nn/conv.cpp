#include "wick/nn/conv.h"

#include "wick/core/ops/conv.h"
#include "wick/core/ops/pool.h"
#include "wick/nn/init.h"

namespace wick::nn {

namespace {

std::string describe(const char* name, const Tensor& weight, const std::string& rest) {
  std::string kernel;
  for (int i = 2; i < weight.rank(); ++i) {
    kernel += (i > 2 ? "x" : "") + std::to_string(weight.shape()[i]);
  }
  return concat(name, "(", weight.size(1), ", ", weight.size(0), ", kernel=", kernel, rest, ")");
}

std::string pair_text(const char* name, Pair value, int64_t usual) {
  if (value.h == usual && value.w == usual) return "";
  if (value.h == value.w) return concat(", ", name, "=", value.h);
  return concat(", ", name, "=", value.h, "x", value.w);
}

void check_channels(const char* name, int64_t in, int64_t out, int64_t groups) {
  WICK_CHECK(in >= 1 && out >= 1, name, ": channels must be 1 or more: got ", in, " and ", out);
  WICK_CHECK(groups >= 1 && in % groups == 0 && out % groups == 0, name,
             ": groups must divide both numbers of channels: got ", groups, " for ", in, " and ",
             out);
}

}  // namespace

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Pair kernel_size,
               const Conv2dOptions& options)
    : options_(options) {
  check_channels("Conv2d", in_channels, out_channels, options.groups);
  weight = add_parameter(
      "weight", empty({out_channels, in_channels / options.groups, kernel_size.h, kernel_size.w},
                      kFloat32, kCpu, MemoryFormat::kChannelsLast));
  bias = add_parameter("bias", options.bias ? empty({out_channels}) : Tensor());
  init::linear_default_(weight, bias);
}

Tensor Conv2d::forward(const Tensor& x) {
  const Conv2dOptions& o = options_;
  return conv2d(x, weight, bias, {o.stride.h, o.stride.w}, {o.padding.h, o.padding.w},
                {o.dilation.h, o.dilation.w}, o.groups);
}

std::string Conv2d::description() const {
  const Conv2dOptions& o = options_;
  return describe("Conv2d", weight,
                  pair_text("stride", o.stride, 1) + pair_text("padding", o.padding, 0) +
                      pair_text("dilation", o.dilation, 1) +
                      (o.groups > 1 ? concat(", groups=", o.groups) : ""));
}

Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
               const Conv1dOptions& options)
    : options_(options) {
  check_channels("Conv1d", in_channels, out_channels, options.groups);
  weight =
      add_parameter("weight", empty({out_channels, in_channels / options.groups, kernel_size}));
  bias = add_parameter("bias", options.bias ? empty({out_channels}) : Tensor());
  init::linear_default_(weight, bias);
}

Tensor Conv1d::forward(const Tensor& x) {
  const Conv1dOptions& o = options_;
  return conv1d(x, weight, bias, o.stride, o.padding, o.dilation, o.groups);
}

std::string Conv1d::description() const {
  const Conv1dOptions& o = options_;
  return describe("Conv1d", weight,
                  pair_text("stride", o.stride, 1) + pair_text("padding", o.padding, 0));
}

ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, Pair kernel_size,
                                 const ConvTranspose2dOptions& options)
    : options_(options) {
  check_channels("ConvTranspose2d", in_channels, out_channels, 1);
  weight = add_parameter("weight", empty({in_channels, out_channels, kernel_size.h, kernel_size.w},
                                         kFloat32, kCpu, MemoryFormat::kChannelsLast));
  bias = add_parameter("bias", options.bias ? empty({out_channels}) : Tensor());
  init::linear_default_(weight, bias);
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  const ConvTranspose2dOptions& o = options_;
  return conv_transpose2d(x, weight, bias, {o.stride.h, o.stride.w}, {o.padding.h, o.padding.w},
                          {o.output_padding.h, o.output_padding.w});
}

std::string ConvTranspose2d::description() const {
  return describe(
      "ConvTranspose2d", weight,
      pair_text("stride", options_.stride, 1) + pair_text("padding", options_.padding, 0));
}

Tensor MaxPool2d::forward(const Tensor& x) {
  const Pair stride = options_.stride.value_or(kernel_size_);
  return max_pool2d(x, {kernel_size_.h, kernel_size_.w}, {stride.h, stride.w},
                    {options_.padding.h, options_.padding.w});
}

Tensor AvgPool2d::forward(const Tensor& x) {
  const Pair stride = options_.stride.value_or(kernel_size_);
  return avg_pool2d(x, {kernel_size_.h, kernel_size_.w}, {stride.h, stride.w},
                    {options_.padding.h, options_.padding.w});
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
  return adaptive_avg_pool2d(x, {output_size_.h, output_size_.w});
}

}  // namespace wick::nn
