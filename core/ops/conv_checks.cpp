#include "wick/core/base/detail/checked.h"
#include "wick/core/ops/detail/conv_images.h"
#include "wick/core/ops/detail/image_format.h"

namespace wick {

void check_conv_gradient(const char* op, int axes, const Tensor& dy, const Shape& x,
                         const Shape& weight, const ConvSteps& steps) {
  const Shape shape = conv_shape(op, axes, x, weight, steps);
  WICK_CHECK(dy.shape() == shape, op, ": the gradient has the wrong shape: got ", dy.shape(),
             ", expected ", shape);
}

Shape conv_shape(const char* op, int axes, const Shape& x, const Shape& weight,
                 const ConvSteps& steps) {
  WICK_CHECK(x.rank() == axes + 2, op, ": x needs ", axes + 2, " axes: got shape ", x);
  WICK_CHECK(weight.rank() == x.rank() && steps.stride.rank() == axes &&
                 steps.padding.rank() == axes && steps.dilation.rank() == axes,
             op, ": weight needs ", x.rank(), " axes: got shape ", weight, ", stride ",
             steps.stride, ", padding ", steps.padding, ", dilation ", steps.dilation);
  image_sizes(op, "stride", steps.stride, 1, axes);
  image_sizes(op, "padding", steps.padding, 0, axes);
  image_sizes(op, "dilation", steps.dilation, 1, axes);
  checked_numel(op, x);
  checked_numel(op, weight);
  const int64_t groups = steps.groups;
  WICK_CHECK(weight[0] >= 1 && groups >= 1 && weight[0] % groups == 0, op,
             ": groups do not divide the channels: got weight ", weight, ", groups ", groups);
  const int64_t channels = checked_mul(op, weight[1], groups);
  WICK_CHECK(x[1] == channels, op, ": channels differ: got x ", x, " and weight ", weight, " with ",
             groups, " groups, expected ", channels, " channels in x");
  Shape shape{x[0], weight[0]};
  for (int axis = 0; axis < axes; ++axis) {
    const int64_t padded = x[axis + 2] + 2 * steps.padding[axis];
    const int64_t reach = checked_mul(op, steps.dilation[axis], weight[axis + 2] - 1);
    WICK_CHECK(weight[axis + 2] >= 1 && reach < padded, op, ": kernel is larger than the padded ",
               axes == 2 ? "image" : "volume", ": got x ", x, ", weight ", weight, ", padding ",
               steps.padding, ", dilation ", steps.dilation);
    shape.push_back((padded - reach - 1) / steps.stride[axis] + 1);
  }
  return shape;
}

void check_conv_dtypes(const char* op, const Tensor& x, const Tensor& weight) {
  WICK_CHECK(is_floating(x.dtype(op)), op, ": needs a floating dtype: got ", to_string(x.dtype()));
  WICK_CHECK(x.dtype() == weight.dtype(op), op, ": dtypes differ: got ", to_string(x.dtype()),
             " and ", to_string(weight.dtype()));
}

void check_conv_bias(const char* op, const Tensor& bias, int64_t channels) {
  WICK_CHECK(!bias.defined() || (bias.rank() == 1 && bias.size(0) == channels), op,
             ": bias has the wrong shape: got ", bias.shape(), ", expected [", channels, "]");
}

std::vector<int64_t> same_padding(const char* op, const Tensor& weight, const Shape& stride,
                                  const Shape& dilation) {
  std::vector<int64_t> pads;
  for (int axis = weight.rank(op) - 3; axis >= 0; --axis) {
    const int64_t step = stride[stride.rank() == 1 ? 0 : axis];
    WICK_CHECK(step == 1, op, ": padding that keeps the size needs a stride of 1: got ", stride);
    const int64_t total =
        checked_mul(op, dilation[dilation.rank() == 1 ? 0 : axis], weight.size(axis + 2) - 1);
    pads.push_back(total / 2);
    pads.push_back(total - total / 2);
  }
  return pads;
}

}  // namespace wick
