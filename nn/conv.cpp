#include "wick/nn/conv.h"

#include "wick/nn/detail/sizes_text.h"
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

std::string groups_text(int64_t groups) { return groups > 1 ? concat(", groups=", groups) : ""; }

std::string mode_text(PadMode mode) {
  switch (mode) {
    case PadMode::kConstant: return "";
    case PadMode::kReflect: return ", padding_mode=reflect";
    case PadMode::kReplicate: return ", padding_mode=replicate";
    case PadMode::kCircular: return ", padding_mode=circular";
  }
  return "";
}

void check_channels(const char* name, int64_t in, int64_t out, int64_t groups) {
  WICK_CHECK(in >= 1 && out >= 1, name, ": channels must be 1 or more: got ", in, " and ", out);
  WICK_CHECK(groups >= 1 && in % groups == 0 && out % groups == 0, name,
             ": groups must divide both numbers of channels: got ", groups, " for ", in, " and ",
             out);
}

// A weight of `first` x `second` channels; those of images are stored channels-last.
Tensor empty_weight(int64_t first, int64_t second, const Shape& kernel) {
  Shape shape{first, second};
  for (const int64_t size : kernel) shape.push_back(size);
  return empty(shape, kFloat32, kCpu,
               kernel.rank() == 2 ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous);
}

}  // namespace

Convolution::Convolution(const char* name, int axes, int64_t in_channels, int64_t out_channels,
                         const Shape& kernel_size, const ConvOptions& options)
    : name_(name), options_(options) {
  ConvOptions& o = options_;
  check_channels(name, in_channels, out_channels, o.groups);
  o.stride = image_sizes(name, "stride", o.stride, 1, axes);
  o.padding.sizes = image_sizes(name, "padding", o.padding.sizes, 0, axes);
  o.dilation = image_sizes(name, "dilation", o.dilation, 1, axes);
  const Shape kernel = image_sizes(name, "kernel_size", kernel_size, 1, axes);
  weight = add_parameter("weight", empty_weight(out_channels, in_channels / o.groups, kernel));
  bias = add_parameter("bias", o.bias ? empty({out_channels}) : Tensor());
  init::linear_default_(weight, bias);
  if (!o.padding.same) return;
  for (const int64_t step : o.stride) {
    WICK_CHECK(step == 1, name, ": padding that keeps the size needs a stride of 1: got ",
               o.stride);
  }
}

Tensor Convolution::forward(const Tensor& x) {
  const ConvOptions& o = options_;
  const int axes = o.stride.rank();
  Tensor padded = x;
  Shape padding = o.padding.sizes;
  const bool even = !o.padding.same && o.padding_mode == PadMode::kConstant;
  if (!even) {  // else the convolution itself pads
    std::vector<int64_t> pads;
    for (int axis = axes - 1; axis >= 0; --axis) {
      const int64_t total =
          o.padding.same ? o.dilation[axis] * (weight.size(axis + 2) - 1) : 2 * padding[axis];
      pads.push_back(total / 2);
      pads.push_back(total - total / 2);
    }
    padded = pad(x, pads, 0, o.padding_mode);
    padding = Shape::filled(axes, 0);
  }
  if (axes == 1) {
    return conv1d(padded, weight, bias, o.stride[0], padding[0], o.dilation[0], o.groups);
  }
  if (axes == 2) return conv2d(padded, weight, bias, o.stride, padding, o.dilation, o.groups);
  return conv3d(padded, weight, bias, o.stride, padding, o.dilation, o.groups);
}

std::string Convolution::description() const {
  const ConvOptions& o = options_;
  return describe(
      name_, o.groups * weight.size(1), weight.size(0), weight,
      option_text("stride", o.stride, 1) +
          (o.padding.same ? ", padding=same" : option_text("padding", o.padding.sizes, 0)) +
          option_text("dilation", o.dilation, 1) + groups_text(o.groups) +
          mode_text(o.padding_mode));
}

TransposedConvolution::TransposedConvolution(const char* name, int axes, int64_t in_channels,
                                             int64_t out_channels, const Shape& kernel_size,
                                             const ConvTransposeOptions& options)
    : name_(name), options_(options) {
  ConvTransposeOptions& o = options_;
  check_channels(name, in_channels, out_channels, o.groups);
  o.stride = image_sizes(name, "stride", o.stride, 1, axes);
  o.padding = image_sizes(name, "padding", o.padding, 0, axes);
  o.output_padding = image_sizes(name, "output_padding", o.output_padding, 0, axes);
  o.dilation = image_sizes(name, "dilation", o.dilation, 1, axes);
  const Shape kernel = image_sizes(name, "kernel_size", kernel_size, 1, axes);
  weight = add_parameter("weight", empty_weight(in_channels, out_channels / o.groups, kernel));
  bias = add_parameter("bias", o.bias ? empty({out_channels}) : Tensor());
  init::linear_default_(weight, bias);
}

Shape TransposedConvolution::output_padding(const Tensor& x, const Shape& output_size) const {
  const ConvTransposeOptions& o = options_;
  const int axes = o.stride.rank();
  if (output_size.rank() == 0) return o.output_padding;
  WICK_CHECK(output_size.rank() == axes && x.rank(name_) >= axes, name_,
             ": output_size has the wrong number of axes: got ", output_size, ", expected ", axes);
  Shape extra = output_size;
  for (int axis = 0; axis < axes; ++axis) {
    const int64_t least = (x.size(x.rank() - axes + axis) - 1) * o.stride[axis] -
                          2 * o.padding[axis] + o.dilation[axis] * (weight.size(axis + 2) - 1) + 1;
    extra[axis] -= least;
    WICK_CHECK(extra[axis] >= 0 && extra[axis] < o.stride[axis], name_, ": output_size: got ",
               output_size[axis], " for axis ", axis, ", expected ", least, " to ",
               least + o.stride[axis] - 1);
  }
  return extra;
}

Tensor TransposedConvolution::forward(const Tensor& x, const Shape& output_size) {
  const ConvTransposeOptions& o = options_;
  const Shape extra = output_padding(x, output_size);
  if (o.stride.rank() == 1) {
    return conv_transpose1d(x, weight, bias, o.stride[0], o.padding[0], extra[0], o.groups,
                            o.dilation[0]);
  }
  const auto convolve = o.stride.rank() == 2 ? &conv_transpose2d : &conv_transpose3d;
  return convolve(x, weight, bias, o.stride, o.padding, extra, o.groups, o.dilation);
}

std::string TransposedConvolution::description() const {
  const ConvTransposeOptions& o = options_;
  return describe(name_, weight.size(0), o.groups * weight.size(1), weight,
                  option_text("stride", o.stride, 1) + option_text("padding", o.padding, 0) +
                      option_text("output_padding", o.output_padding, 0) +
                      option_text("dilation", o.dilation, 1) + groups_text(o.groups));
}

}  // namespace wick::nn
