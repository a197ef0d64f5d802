#include "wick/nn/conv.h"

#include "wick/core/ops/conv.h"
#include "wick/core/ops/pool.h"
#include "wick/nn/init.h"

namespace wick::nn {

namespace {

std::string describe(const char* name, int64_t in, int64_t out, const Tensor& weight,
                     const std::string& rest) {
  std::string kernel;
  for (int i = 2; i < weight.rank(); ++i) {
    kernel += (i > 2 ? "x" : "") + std::to_string(weight.shape()[i]);
  }
  return concat(name, "(", in, ", ", out, ", kernel=", kernel, rest, ")");
}

std::string text(Pair value) {
  return value.h == value.w ? std::to_string(value.h) : concat(value.h, "x", value.w);
}

std::string pair_text(const char* name, Pair value, int64_t usual) {
  return value.h == usual && value.w == usual ? "" : concat(", ", name, "=", text(value));
}

std::string groups_text(int64_t groups) { return groups > 1 ? concat(", groups=", groups) : ""; }

template <typename Options>
std::string describe_pool(const char* name, Pair kernel, const Options& options,
                          const std::string& rest) {
  return concat(
      name, "(", text(kernel), options.stride ? concat(", stride=", text(*options.stride)) : "",
      pair_text("padding", options.padding, 0), rest, options.ceil_mode ? ", ceil_mode" : "", ")");
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
  return describe("Conv2d", o.groups * weight.size(1), weight.size(0), weight,
                  pair_text("stride", o.stride, 1) + pair_text("padding", o.padding, 0) +
                      pair_text("dilation", o.dilation, 1) + groups_text(o.groups));
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
  return describe("Conv1d", o.groups * weight.size(1), weight.size(0), weight,
                  pair_text("stride", o.stride, 1) + pair_text("padding", o.padding, 0) +
                      pair_text("dilation", o.dilation, 1) + groups_text(o.groups));
}

ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, Pair kernel_size,
                                 const ConvTranspose2dOptions& options)
    : options_(options) {
  check_channels("ConvTranspose2d", in_channels, out_channels, options.groups);
  weight = add_parameter(
      "weight", empty({in_channels, out_channels / options.groups, kernel_size.h, kernel_size.w},
                      kFloat32, kCpu, MemoryFormat::kChannelsLast));
  bias = add_parameter("bias", options.bias ? empty({out_channels}) : Tensor());
  init::linear_default_(weight, bias);
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  const ConvTranspose2dOptions& o = options_;
  return conv_transpose2d(x, weight, bias, {o.stride.h, o.stride.w}, {o.padding.h, o.padding.w},
                          {o.output_padding.h, o.output_padding.w}, o.groups,
                          {o.dilation.h, o.dilation.w});
}

std::string ConvTranspose2d::description() const {
  const ConvTranspose2dOptions& o = options_;
  return describe("ConvTranspose2d", weight.size(0), o.groups * weight.size(1), weight,
                  pair_text("stride", o.stride, 1) + pair_text("padding", o.padding, 0) +
                      pair_text("output_padding", o.output_padding, 0) +
                      pair_text("dilation", o.dilation, 1) + groups_text(o.groups));
}

Tensor MaxPool2d::forward(const Tensor& x) {
  const MaxPool2dOptions& o = options_;
  const Pair stride = o.stride.value_or(kernel_size_);
  return max_pool2d(x, {kernel_size_.h, kernel_size_.w}, {stride.h, stride.w},
                    {o.padding.h, o.padding.w}, {o.dilation.h, o.dilation.w}, o.ceil_mode);
}

std::string MaxPool2d::description() const {
  return describe_pool("MaxPool2d", kernel_size_, options_,
                       pair_text("dilation", options_.dilation, 1));
}

Tensor AvgPool2d::forward(const Tensor& x) {
  const AvgPool2dOptions& o = options_;
  const Pair stride = o.stride.value_or(kernel_size_);
  return avg_pool2d(x, {kernel_size_.h, kernel_size_.w}, {stride.h, stride.w},
                    {o.padding.h, o.padding.w}, o.ceil_mode, o.count_include_pad);
}

std::string AvgPool2d::description() const {
  return describe_pool("AvgPool2d", kernel_size_, options_,
                       options_.count_include_pad ? "" : ", count_include_pad=false");
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
  return adaptive_avg_pool2d(x, {output_size_.h, output_size_.w});
}

}  // namespace wick::nn
