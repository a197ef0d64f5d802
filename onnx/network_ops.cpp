#include <algorithm>

#include "wick/core/core.h"
#include "wick/onnx/detail/spatial.h"

// Convolutions, products and normalisations.
namespace wick::onnx::detail {

int spatial_axes(const Tensor& x) {
  WICK_CHECK(x.rank() >= 3 && x.rank() <= 5, "input 0 is no signal, image or volume: got shape ",
             x.shape());
  return x.rank() - 2;
}

Margins margins_of(const Call& call, const Tensor& x, const Shape& kernel, const Shape& stride,
                   const Shape& dilation) {
  const int count = kernel.rank();
  const std::string mode = call.text("auto_pad", "NOTSET");
  Margins margins{Shape::filled(count, 0), Shape::filled(count, 0)};
  if (mode == "VALID") return margins;
  if (mode == "NOTSET") {
    const Shape pads = per_axis("pads", call.integers("pads"), 2 * count, 0);
    for (int i = 0; i < count; ++i) {
      margins.before[i] = pads[i], margins.after[i] = pads[i + count];
    }
    return margins;
  }
  WICK_CHECK(mode == "SAME_UPPER" || mode == "SAME_LOWER", "attribute auto_pad: got ", mode);
  for (int i = 0; i < count; ++i) {
    const int64_t size = x.shape()[i + 2];
    WICK_CHECK(stride[i] > 0, "a stride: got ", stride[i]);
    const int64_t steps = (size + stride[i] - 1) / stride[i];
    const int64_t all =
        std::max<int64_t>(0, (steps - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - size);
    const int64_t less = all / 2, more = all - less;
    margins.before[i] = mode == "SAME_UPPER" ? less : more;
    margins.after[i] = all - margins.before[i];
  }
  return margins;
}

Tensor with_margins(const Tensor& x, const Margins& margins, double value) {
  std::vector<int64_t> pads;
  for (int i = margins.before.rank(); i > 0; --i) {
    pads.push_back(margins.before[i - 1]);
    pads.push_back(margins.after[i - 1]);
  }
  return pad(x, pads, value);
}

namespace {

using Results = std::vector<Tensor>;

Shape kernel_of(const Call& call, const Tensor& weight, int count) {
  WICK_CHECK(weight.rank() == count + 2, "the weight has another rank than input 0: got shape ",
             weight.shape(), ", expected rank ", count + 2);
  Shape kernel;
  for (int i = 0; i < count; ++i) kernel.push_back(weight.shape()[i + 2]);
  const Shape named(call.integers("kernel_shape"));
  WICK_CHECK(named.empty() || named == kernel, "attribute kernel_shape: got ", named,
             ", expected the weight's ", kernel);
  return kernel;
}

Results conv_op(Call& call) {
  Tensor x = call[0];
  const int count = spatial_axes(x);
  const Shape kernel = kernel_of(call, call[1], count);
  const Shape stride = per_axis("strides", call.integers("strides"), count, 1);
  const Shape dilation = per_axis("dilations", call.integers("dilations"), count, 1);
  const Margins margins = margins_of(call, x, kernel, stride, dilation);
  Shape padding = margins.before;
  if (!margins.is_even()) x = with_margins(x, margins, 0), padding = Shape::filled(count, 0);
  const Tensor weight = call[1], bias = call.optional(2);
  const int64_t groups = call.integer("group", 1);
  if (count == 1) {
    return one(conv1d(x, weight, bias, stride[0], padding[0], dilation[0], groups));
  }
  return one(count == 2 ? conv2d(x, weight, bias, stride, padding, dilation, groups)
                        : conv3d(x, weight, bias, stride, padding, dilation, groups));
}

Results conv_transpose_op(Call& call) {
  const Tensor x = call[0];
  const int count = spatial_axes(x);
  const Shape kernel = kernel_of(call, call[1], count);
  WICK_CHECK(call.text("auto_pad", "NOTSET") == "NOTSET" && call.integers("output_shape").empty(),
             "got auto_pad or output_shape, expected pads");
  const Shape stride = per_axis("strides", call.integers("strides"), count, 1);
  const Shape dilation = per_axis("dilations", call.integers("dilations"), count, 1);
  const Margins margins = margins_of(call, x, kernel, stride, dilation);
  WICK_CHECK(margins.is_even(), "pads differ before and after: got ", margins.before, " and ",
             margins.after);
  const Shape extra = per_axis("output_padding", call.integers("output_padding"), count, 0);
  const Shape& padding = margins.before;
  const Tensor weight = call[1], bias = call.optional(2);
  const int64_t groups = call.integer("group", 1);
  if (count == 1) {
    return one(
        conv_transpose1d(x, weight, bias, stride[0], padding[0], extra[0], groups, dilation[0]));
  }
  return one(count == 2
                 ? conv_transpose2d(x, weight, bias, stride, padding, extra, groups, dilation)
                 : conv_transpose3d(x, weight, bias, stride, padding, extra, groups, dilation));
}

Results gemm_op(Call& call) {
  const double alpha = call.real("alpha", 1), beta = call.real("beta", 1);
  const bool turns_a = call.integer("transA", 0) != 0, turns_b = call.integer("transB", 0) != 0;
  const Tensor a = turns_a ? call[0].transpose(0, 1) : call[0], c = call.optional(2);
  WICK_CHECK(a.rank() == 2 && call[1].rank() == 2, "inputs are no matrices: got shapes ",
             call[0].shape(), " and ", call[1].shape());
  const bool is_linear = turns_b && alpha == 1 && beta == 1 &&
                         (!c.defined() || c.shape() == Shape{call[1].shape()[0]});
  if (is_linear) return one(linear(a, call[1], c));
  Tensor product = matmul(a, turns_b ? call[1].transpose(0, 1) : call[1]);
  if (alpha != 1) product = product * alpha;
  if (!c.defined() || beta == 0) return one(product);
  return one(product + (beta == 1 ? c : c * beta));
}

Results matmul_op(Call& call) { return one(matmul(call[0], call[1])); }

Results batch_norm_op(Call& call) {
  BatchNormOptions options;
  options.training = call.training();
  options.momentum = 1 - call.real("momentum", 0.9);
  options.eps = call.real("epsilon", 1e-5);
  return one(batch_norm(call[0], call[1], call[2], call[3], call[4], options));
}

Results layer_norm_op(Call& call) {
  const Tensor x = call[0];
  const int first = wrap_axis("LayerNormalization", call.integer("axis", -1), x.rank());
  Shape shape;
  for (int i = first; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return one(layer_norm(x, shape, call[1], call.optional(2), call.real("epsilon", 1e-5)));
}

Results instance_norm_op(Call& call) {
  const Tensor x = call[0];
  WICK_CHECK(x.rank() >= 3, "input 0 has no channels with places: got shape ", x.shape());
  return one(group_norm(x, x.shape()[1], call[1], call[2], call.real("epsilon", 1e-5)));
}

// Of an even number of channels ONNX has one more after each channel, and Wick one more before it.
Results local_response_norm_op(Call& call) {
  const int64_t size = call.integer("size");
  const bool is_even = size % 2 == 0;
  const Tensor x = is_even ? call[0].flip({1}) : call[0];
  const Tensor y = local_response_norm(x, size, call.real("alpha", 1e-4), call.real("beta", 0.75),
                                       call.real("bias", 1));
  return one(is_even ? y.flip({1}) : y);
}

constexpr OpEntry kNetworkOps[] = {
    {"Conv", 2, 3, conv_op},
    {"ConvTranspose", 2, 3, conv_transpose_op},
    {"Gemm", 2, 3, gemm_op},
    {"MatMul", 2, 2, matmul_op},
    {"BatchNormalization", 5, 5, batch_norm_op},
    {"LayerNormalization", 2, 3, layer_norm_op},
    {"InstanceNormalization", 3, 3, instance_norm_op},
    {"LRN", 1, 1, local_response_norm_op},
};

}  // namespace

std::span<const OpEntry> network_ops() { return kNetworkOps; }

}  // namespace wick::onnx::detail
