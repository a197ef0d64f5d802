#include "wick/core/apply.h"
#include "wick/core/base/detail/checked.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/detail/conv_images.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/volume.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/unfold.h"

namespace wick {

namespace {

constexpr AutocastPolicy kLowerPrecision{.cuda = Autocast::kLower, .cpu = Autocast::kLower};

// Planes with the channels of `taps` planes each, `dilation` apart, every `stride`, by groups:
// [N, C, D, H, W] -> [N O, groups taps C / groups, H, W].
Tensor stacked_planes(const Tensor& x, int64_t taps, int64_t dilation, int64_t stride,
                      int64_t groups) {
  const int64_t reach = dilation * (taps - 1) + 1;
  const Tensor windows = unfold(x, 2, reach, stride).slice(-1, 0, reach, dilation);
  const int64_t n = x.size(0), channels = x.size(1), height = x.size(3), width = x.size(4);
  const int64_t planes = windows.size(2);
  return windows.reshape({n, groups, channels / groups, planes, height, width, taps})
      .permute({0, 3, 4, 5, 1, 6, 2})
      .reshape({n * planes, height, width, taps * channels})
      .permute({0, 3, 1, 2});
}

Tensor pad_depth(const Tensor& x, int64_t before, int64_t behind) {
  return before == 0 && behind == 0 ? x : pad(x, {0, 0, 0, 0, before, behind});
}

// The attributes that the convolution and its two gradients share, an entry for each axis.
struct Geometry3d : ConvSteps {
  ConvSteps of_planes() const {
    return {{stride[1], stride[2]}, {padding[1], padding[2]}, {dilation[1], dilation[2]}, groups};
  }
  Tensor images(const Tensor& x, int64_t taps) const {
    return stacked_planes(pad_depth(x, padding[0], padding[0]), taps, dilation[0], stride[0],
                          groups);
  }
};

constexpr auto kGeometry3dFields =
    std::tuple{field("stride", &ConvSteps::stride), field("padding", &ConvSteps::padding),
               field("dilation", &ConvSteps::dilation), field("groups", &ConvSteps::groups)};

// Each operand is kept for the gradient of the other.
void keep_operands(Saved& saved, const Tensor& a, const Tensor& b) {
  saved.save(saved.needs(1) ? a : Tensor(), saved.needs(0) ? b : Tensor());
}

// The sizes of input `i` from axis 2 on.
Shape volume_size(const Saved& saved, int i) {
  const Shape& shape = saved.input(i).shape;
  return {shape[2], shape[3], shape[4]};
}

// The three are linear in each input, and each is the others' gradient.
struct Conv3d : Geometry3d {
  static constexpr OpInfo info{.name = "conv3d", .autocast = kLowerPrecision};
  static constexpr auto fields = kGeometry3dFields;

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    check_conv_dtypes("conv3d", x, weight);
    const Shape shape = conv_shape("conv3d", 3, x.shape(), weight.shape(), *this);
    check_conv_bias("conv3d", bias, shape[1]);
    keep_operands(saved, x, weight);
    const int64_t taps = weight.size(2);
    const Tensor flat = weight.transpose(1, 2).reshape(
        {weight.size(0), taps * weight.size(1), weight.size(3), weight.size(4)});
    const ConvSteps steps = of_planes();
    const Tensor planes =
        conv2d(images(x, taps), flat, bias, steps.stride, steps.padding, steps.dilation, groups);
    return volumes_of(planes, x.size(0), shape[2]);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const;
};

struct Conv3dBackwardInput : Geometry3d {
  static constexpr OpInfo info{.name = "conv3d_backward_input", .autocast = kLowerPrecision};
  Shape size;  // of the input
  static constexpr auto fields =
      std::tuple_cat(kGeometry3dFields, std::tuple{field("size", &Conv3dBackwardInput::size)});

  // Along the depth it is a convolution too, with the taps in reverse, of dy with zeros between its
  // planes: so each result is one sum, rounded once.
  Tensor forward(Saved& saved, const Tensor& dy, const Tensor& weight) const {
    check_conv_dtypes("conv3d_backward_input", dy, weight);
    WICK_CHECK(size.rank() == 3, "conv3d_backward_input: size: got ", size, ", expected 3 numbers");
    const int64_t all = checked_mul("conv3d_backward_input", weight.size(1), groups);
    check_conv_gradient("conv3d_backward_input", 3, dy,
                        {dy.size(0), all, size[0], size[1], size[2]}, weight.shape(), *this);
    keep_operands(saved, dy, weight);
    const int64_t taps = weight.size(2), between = stride[0] - 1;
    const int64_t n = dy.size(0), channels = dy.size(1), planes = dy.size(2);
    Tensor apart = dy;
    if (between > 0) {
      apart = pad(dy.unsqueeze(3), {0, 0, 0, 0, 0, between})
                  .reshape({n, channels, planes * stride[0], dy.size(3), dy.size(4)});
    }
    const int64_t reach = dilation[0] * (taps - 1), before = reach - padding[0];
    apart = pad_depth(apart, before, size[0] + reach - before - apart.size(2));
    const int64_t in_group = weight.size(1), height = weight.size(3), width = weight.size(4);
    const Tensor flat =
        flip(weight.reshape({groups, channels / groups, in_group, taps, height, width}), {3})
            .permute({0, 3, 1, 2, 4, 5})
            .reshape({channels * taps, in_group, height, width});
    const Tensor image = stacked_planes(apart, taps, dilation[0], 1, groups);
    return volumes_of(conv2d_input_gradient(image, flat, {size[1], size[2]}, of_planes()), n,
                      size[0]);
  }
  Gradients backward(const Saved& saved, const Tensor& g) const;
};

struct Conv3dBackwardWeight : Geometry3d {
  static constexpr OpInfo info{.name = "conv3d_backward_weight", .autocast = kLowerPrecision};
  Shape kernel;  // of the weight
  static constexpr auto fields =
      std::tuple_cat(kGeometry3dFields, std::tuple{field("kernel", &Conv3dBackwardWeight::kernel)});

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& dy) const {
    check_conv_dtypes("conv3d_backward_weight", x, dy);
    WICK_CHECK(kernel.rank() == 3 && groups >= 1, "conv3d_backward_weight: kernel and groups: got ",
               kernel, " and ", groups, ", expected 3 numbers, and 1 or more");
    check_conv_gradient("conv3d_backward_weight", 3, dy, x.shape(),
                        {dy.size(1), x.size(1) / groups, kernel[0], kernel[1], kernel[2]}, *this);
    keep_operands(saved, x, dy);
    const Tensor flat = conv2d_weight_gradient(images(x, kernel[0]), planes_of(dy),
                                               {kernel[1], kernel[2]}, of_planes());
    return flat.reshape({dy.size(1), kernel[0], x.size(1) / groups, kernel[1], kernel[2]})
        .transpose(1, 2)
        .contiguous();
  }
  Gradients backward(const Saved& saved, const Tensor& g) const;
};

Gradients Conv3d::backward(const Saved& saved, const Tensor& dy) const {
  Gradients grads(3);
  if (saved.needs(1)) {
    grads[1] = apply(Conv3dBackwardWeight{*this, volume_size(saved, 1)}, saved[0], dy);
  }
  if (saved.needs(0)) {
    grads[0] = apply(Conv3dBackwardInput{*this, volume_size(saved, 0)}, dy, saved[1]);
  }
  if (saved.needs(2)) grads[2] = dy.sum({0, 2, 3, 4});
  return grads;
}

Gradients Conv3dBackwardInput::backward(const Saved& saved, const Tensor& g) const {
  Gradients grads(2);
  if (saved.needs(1)) {
    grads[1] = apply(Conv3dBackwardWeight{*this, volume_size(saved, 1)}, g, saved[0]);
  }
  if (saved.needs(0)) grads[0] = apply(Conv3d{*this}, g, saved[1], Tensor());
  return grads;
}

Gradients Conv3dBackwardWeight::backward(const Saved& saved, const Tensor& g) const {
  Gradients grads(2);
  if (saved.needs(0)) {
    grads[0] = apply(Conv3dBackwardInput{*this, volume_size(saved, 0)}, saved[1], g);
  }
  if (saved.needs(1)) grads[1] = apply(Conv3d{*this}, saved[0], g, Tensor());
  return grads;
}

// Checks what conv3d and conv_transpose3d have in common.
Geometry3d checked_steps(const char* op, const Tensor& x, const Tensor& weight, const Shape& stride,
                         const Shape& padding, const Shape& dilation, int64_t groups) {
  WICK_CHECK(x.rank(op) == 5, op, ": x needs 5 axes (N, C, D, H, W) or 4 (C, D, H, W): got shape ",
             x.shape());
  WICK_CHECK(weight.rank(op) == 5, op, ": weight needs 5 axes: got shape ", weight.shape());
  WICK_CHECK(groups >= 1 && weight.size(0) % groups == 0 && x.size(1) % groups == 0, op,
             ": channels are not divisible by groups: got x ", x.shape(), ", weight ",
             weight.shape(), ", groups ", groups);
  WICK_CHECK(weight.numel() > 0, op, ": weight is empty: got shape ", weight.shape());
  return {{image_sizes(op, "stride", stride, 1, 3), image_sizes(op, "padding", padding, 0, 3),
           image_sizes(op, "dilation", dilation, 1, 3), groups}};
}

}  // namespace

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& stride,
              const Shape& padding, const Shape& dilation, int64_t groups) {
  const char* op = "conv3d";
  if (x.rank() == 4) {
    return conv3d(x.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0);
  }
  const Geometry3d steps = checked_steps(op, x, weight, stride, padding, dilation, groups);
  return apply(Conv3d{steps}, x, weight, bias);
}

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& stride,
              ConvPadding padding, const Shape& dilation, int64_t groups) {
  check_defined("conv3d", x, weight);
  if (padding == ConvPadding::kValid) return conv3d(x, weight, bias, stride, 0, dilation, groups);
  const Shape apart = image_sizes("conv3d", "dilation", dilation, 1, 3);
  return conv3d(pad(x, same_padding("conv3d", weight, stride, apart)), weight, bias, stride, 0,
                apart, groups);
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Shape& stride, const Shape& padding, const Shape& output_padding,
                        int64_t groups, const Shape& dilation) {
  const char* op = "conv_transpose3d";
  if (x.rank() == 4) {
    return conv_transpose3d(x.unsqueeze(0), weight, bias, stride, padding, output_padding, groups,
                            dilation)
        .squeeze(0);
  }
  const Geometry3d steps = checked_steps(op, x, weight, stride, padding, dilation, groups);
  const Shape extra = image_sizes(op, "output_padding", output_padding, 0, 3);
  WICK_CHECK(x.size(1) == weight.size(0), op, ": channels differ: got x ", x.shape(),
             " and weight ", weight.shape(), ", expected ", weight.size(0), " channels in x");
  const int64_t channels = weight.size(1) * groups;
  check_conv_bias(op, bias, channels);
  Shape size, behind;
  for (const int axis : {0, 1, 2}) {
    WICK_CHECK(extra[axis] < steps.stride[axis] || extra[axis] < steps.dilation[axis], op,
               ": output_padding must be less than the stride or the dilation: got ", extra,
               ", stride ", steps.stride, ", dilation ", steps.dilation);
    const int64_t apart = checked_mul(op, x.size(axis + 2) - 1, steps.stride[axis]);
    const int64_t reach = checked_mul(op, steps.dilation[axis], weight.size(axis + 2) - 1);
    size.push_back(
        checked_add(op, checked_add(op, apart, reach), extra[axis] + 1 - 2 * steps.padding[axis]));
    WICK_CHECK(size.back() >= 1, op, ": the result would be empty: got size ", size.back(),
               " for x ", x.shape(), ", weight ", weight.shape(), ", padding ", steps.padding);
    behind.push_back(extra[axis] / steps.stride[axis]);
  }
  // Whole strides of output_padding are zeros behind x: such an x is what a convolution of a volume
  // of that size gives.
  const Tensor longer =
      behind == Shape{0, 0, 0} ? x : pad(x, {0, behind[2], 0, behind[1], 0, behind[0]});
  return transposed_with_bias(longer, weight, bias, [&](const Tensor& dy, const Tensor& w) {
    return apply(Conv3dBackwardInput{steps, size}, dy, w);
  });
}

}  // namespace wick
