#include "wick/core/ops/conv.h"

#include <algorithm>

#include "wick/core/apply.h"
#include "wick/core/base/detail/checked.h"
#include "wick/core/conv_plan.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/detail/compute_dtype.h"
#include "wick/core/ops/detail/conv_images.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/image_format.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"

namespace wick {

namespace {

constexpr AutocastPolicy kLower{.cuda = Autocast::kLower, .cpu = Autocast::kLower};

// The attributes that the convolution and its two gradients share.
struct Geometry : ConvSteps {
  Conv2dParams params() const {
    return {{stride[0], stride[1]}, {padding[0], padding[1]}, {dilation[0], dilation[1]}, groups};
  }
};

constexpr auto kGeometryFields =
    std::tuple{field("stride", &ConvSteps::stride), field("padding", &ConvSteps::padding),
               field("dilation", &ConvSteps::dilation), field("groups", &ConvSteps::groups)};

// Each operand is kept for the gradient of the other.
void save_operands(Saved& saved, const Tensor& a, const Tensor& b) {
  saved.save(saved.needs(1) ? a : Tensor(), saved.needs(0) ? b : Tensor());
}

// Runs one of the three kernels into `result`: `kernel(plan, workspace)`.
template <class Kernel>
void run(ConvDirection direction, const Tensor& result, const Shape& x, const Shape& weight,
         const Shape& y, const Geometry& geometry, const Kernel& kernel) {
  const Device device = result.device();
  const Conv2dProblem problem{direction, result.dtype(), x, weight, y, geometry.params()};
  const auto compute = [&](const ConvPlan& plan) {
    AllocatorWorkspace workspace(device);
    kernel(plan, workspace);
  };
  compute(conv_plan(problem, device, compute));
}

Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& shape,
               const Geometry& geometry) {
  if (convolves_in_float32(x.device(), x.dtype())) {
    const Tensor wide_bias = bias.defined() ? bias.to(kFloat32) : bias;
    return forward(x.to(kFloat32), weight.to(kFloat32), wide_bias, shape, geometry).to(x.dtype());
  }
  Tensor y = empty(shape, x.dtype(), x.device(), kImageFormat);
  if (y.numel() == 0) return y;
  if (x.numel() == 0) {
    y.zero_();
    if (bias.defined()) y.add_(bias.reshape({1, shape[1], 1, 1}));
    return y;
  }
  const Tensor kx = x.contiguous(kImageFormat), kw = weight.contiguous(kImageFormat);
  const Tensor kb = bias.defined() ? bias.contiguous() : bias;
  const View bias_view = kb.defined() ? kb.view_for_kernel() : View{};
  run(ConvDirection::kForward, y, x.shape(), weight.shape(), shape, geometry,
      [&](const ConvPlan& plan, Workspace& workspace) {
        WICK_DISPATCH(x.device(),
                      conv2d_forward(kx.view_for_kernel(), kw.view_for_kernel(), bias_view,
                                     y.view_for_kernel(), geometry.params(), plan, workspace));
      });
  return y;
}

Tensor backward_input(const Tensor& dy, const Tensor& weight, const Shape& shape,
                      const Geometry& geometry) {
  if (convolves_in_float32(dy.device(), dy.dtype())) {
    return backward_input(dy.to(kFloat32), weight.to(kFloat32), shape, geometry).to(dy.dtype());
  }
  Tensor dx = empty(shape, dy.dtype(), dy.device(), kImageFormat);
  if (dx.numel() == 0) return dx;
  if (dy.numel() == 0) {
    dx.zero_();
    return dx;
  }
  const Tensor kdy = dy.contiguous(kImageFormat), kw = weight.contiguous(kImageFormat);
  run(ConvDirection::kBackwardData, dx, shape, weight.shape(), dy.shape(), geometry,
      [&](const ConvPlan& plan, Workspace& workspace) {
        WICK_DISPATCH(dy.device(), conv2d_backward_data(kdy.view_for_kernel(), kw.view_for_kernel(),
                                                        dx.view_for_kernel(), geometry.params(),
                                                        plan, workspace));
      });
  return dx;
}

Tensor backward_weight(const Tensor& x, const Tensor& dy, const Shape& shape,
                       const Geometry& geometry) {
  if (convolves_in_float32(x.device(), x.dtype())) {
    return backward_weight(x.to(kFloat32), dy.to(kFloat32), shape, geometry).to(x.dtype());
  }
  Tensor dw = empty(shape, x.dtype(), x.device(), kImageFormat);
  if (x.numel() == 0 || dy.numel() == 0 || dw.numel() == 0) {
    dw.zero_();
    return dw;
  }
  const Tensor kx = x.contiguous(kImageFormat), kdy = dy.contiguous(kImageFormat);
  run(ConvDirection::kBackwardWeights, dw, x.shape(), shape, dy.shape(), geometry,
      [&](const ConvPlan& plan, Workspace& workspace) {
        WICK_DISPATCH(x.device(), conv2d_backward_weights(
                                      kx.view_for_kernel(), kdy.view_for_kernel(),
                                      dw.view_for_kernel(), geometry.params(), plan, workspace));
      });
  return dw;
}

double conv_flops(const Tensor& y, const Shape& weight) {
  return 2.0 * static_cast<double>(y.numel()) *
         static_cast<double>(weight[1] * weight[2] * weight[3]);
}

// The three are linear in each input, and each is the others' gradient.
struct Conv2d : Geometry {
  static constexpr OpInfo info{.name = "conv2d", .autocast = kLower};
  static constexpr auto fields = kGeometryFields;

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& weight, const Tensor& bias) const;
  Gradients backward(const Saved& saved, const Tensor& dy) const;
  double flops(std::span<const Tensor> inputs, const Tensor& y) const {
    return conv_flops(y, inputs[1].shape());
  }
};

struct Conv2dBackwardInput : Geometry {
  static constexpr OpInfo info{.name = "conv2d_backward_input", .autocast = kLower};
  Shape size;  // height and width of the input
  static constexpr auto fields =
      std::tuple_cat(kGeometryFields, std::tuple{field("size", &Conv2dBackwardInput::size)});

  Tensor forward(Saved& saved, const Tensor& dy, const Tensor& weight) const;
  Gradients backward(const Saved& saved, const Tensor& g) const;
  double flops(std::span<const Tensor> inputs, const Tensor&) const {
    return conv_flops(inputs[0], inputs[1].shape());
  }
};

struct Conv2dBackwardWeight : Geometry {
  static constexpr OpInfo info{.name = "conv2d_backward_weight", .autocast = kLower};
  Shape kernel;  // height and width of the weight
  static constexpr auto fields =
      std::tuple_cat(kGeometryFields, std::tuple{field("kernel", &Conv2dBackwardWeight::kernel)});

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& dy) const;
  Gradients backward(const Saved& saved, const Tensor& g) const;
  double flops(std::span<const Tensor> inputs, const Tensor& dw) const {
    return conv_flops(inputs[1], dw.shape());
  }
};

// Conv2d for inference: y = relu(convolution + residual), with results rounded where separate ops
// round them. A packed weight (pack_conv_weight()) goes with the algorithm that it is for.
struct Conv2dFused : Geometry {
  static constexpr OpInfo info{.name = "conv2d_fused", .differentiable = false};
  bool relu = false;
  int64_t packed_for = -1;  // a ConvAlgorithm, or -1
  static constexpr auto fields = std::tuple_cat(
      kGeometryFields,
      std::tuple{field("relu", &Conv2dFused::relu), field("packed_for", &Conv2dFused::packed_for)});

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& residual, const Tensor& packed) const;
  double flops(std::span<const Tensor> inputs, const Tensor& y) const {
    return conv_flops(y, inputs[1].shape());
  }
};

// Height and width of input `i`.
Shape image_size(const Saved& saved, int i) {
  const Shape& shape = saved.input(i).shape;
  return {shape[2], shape[3]};
}

Tensor Conv2d::forward(Saved& saved, const Tensor& x, const Tensor& weight,
                       const Tensor& bias) const {
  check_conv_dtypes("conv2d", x, weight);
  if (bias.defined()) check_conv_dtypes("conv2d", x, bias);
  const Shape shape = conv_shape("conv2d", 2, x.shape(), weight.shape(), *this);
  check_conv_bias("conv2d", bias, shape[1]);
  save_operands(saved, x, weight);
  return wick::forward(x, weight, bias, shape, *this);
}

// The composed way, for what the CPU's convolutions do not take.
Tensor followed(Tensor y, const Tensor& residual, bool relu) {
  if (residual.defined()) y = y + residual;
  return relu ? y.relu() : y;
}

Tensor Conv2dFused::forward(Saved&, const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& residual, const Tensor& packed) const {
  check_conv_dtypes("conv2d_fused", x, weight);
  for (const Tensor* each : {&bias, &residual}) {
    if (each->defined()) check_conv_dtypes("conv2d_fused", x, *each);
  }
  const Shape shape = conv_shape("conv2d_fused", 2, x.shape(), weight.shape(), *this);
  check_conv_bias("conv2d_fused", bias, shape[1]);
  WICK_CHECK(!residual.defined() || residual.shape() == shape,
             "conv2d_fused: the residual has the wrong shape: got ", residual.shape(),
             ", expected ", shape);
  const bool is_kernel = x.device().is_cpu() && cpu::convolves(x.dtype()) && x.numel() > 0;
  if (!is_kernel || shape.numel() == 0) {
    return followed(wick::forward(x, weight, bias, shape, *this), residual, relu);
  }
  Tensor y = empty(shape, x.dtype(), x.device(), kImageFormat);
  const Tensor kx = x.contiguous(kImageFormat), kw = weight.contiguous(kImageFormat);
  const Tensor kb = bias.defined() ? bias.contiguous() : bias;
  const Tensor kr = residual.defined() ? residual.contiguous(kImageFormat) : residual;
  ConvEpilogue epilogue;
  if (kb.defined()) epilogue.bias = kb.view_for_kernel();
  if (kr.defined()) epilogue.residual = kr.view_for_kernel();
  epilogue.relu = relu;
  const auto compute = [&](const ConvPlan& plan, Workspace& workspace) {
    cpu::conv2d_fused(kx.view_for_kernel(), kw.view_for_kernel(),
                      packed.defined() ? packed.raw_data() : nullptr, epilogue, y.view_for_kernel(),
                      params(), plan, workspace);
  };
  if (packed.defined()) {
    const Conv2dProblem problem{ConvDirection::kForward, x.dtype(), x.shape(),
                                weight.shape(),          shape,     params()};
    const auto algorithm = static_cast<ConvAlgorithm>(packed_for);
    ConvAlgorithm known[kConvAlgorithms];
    int count = 0;
    cpu::conv2d_algorithms(problem, x.device(), known, &count);
    const bool is_known = std::find(known, known + count, algorithm) != known + count;
    WICK_CHECK(
        is_known && packed.is_contiguous() && packed.dtype() == kFloat32 &&
            packed.numel() * size_of(kFloat32) == cpu::conv2d_packed_bytes(problem, algorithm),
        "conv2d_fused: a packed weight does not fit: got ", packed.shape(), " for algorithm ",
        packed_for);
    AllocatorWorkspace workspace(x.device());
    compute(static_cast<ConvAlgorithm>(packed_for), workspace);
  } else {
    run(ConvDirection::kForward, y, x.shape(), weight.shape(), shape, *this, compute);
  }
  return y;
}

Gradients Conv2d::backward(const Saved& saved, const Tensor& dy) const {
  Gradients grads(3);
  // One after the other: what is kept may be made again by saved[i], and is then let go at once.
  if (saved.needs(1)) {
    grads[1] = apply(Conv2dBackwardWeight{*this, image_size(saved, 1)}, saved[0], dy);
  }
  if (saved.needs(0)) {
    grads[0] = apply(Conv2dBackwardInput{*this, image_size(saved, 0)}, dy, saved[1]);
  }
  if (saved.needs(2)) grads[2] = dy.sum({0, 2, 3});
  return grads;
}

Tensor Conv2dBackwardInput::forward(Saved& saved, const Tensor& dy, const Tensor& weight) const {
  check_conv_dtypes("conv2d_backward_input", dy, weight);
  WICK_CHECK(size.rank() == 2, "conv2d_backward_input: size: got ", size, ", expected two numbers");
  const int64_t channels = checked_mul("conv2d_backward_input", weight.size(1), groups);
  const Shape x{dy.size(0), channels, size[0], size[1]};
  check_conv_gradient("conv2d_backward_input", 2, dy, x, weight.shape(), *this);
  save_operands(saved, dy, weight);
  return backward_input(dy, weight, x, *this);
}

Gradients Conv2dBackwardInput::backward(const Saved& saved, const Tensor& g) const {
  Gradients grads(2);
  if (saved.needs(1)) {
    grads[1] = apply(Conv2dBackwardWeight{*this, image_size(saved, 1)}, g, saved[0]);
  }
  if (saved.needs(0)) grads[0] = apply(Conv2d{*this}, g, saved[1], Tensor());
  return grads;
}

Tensor Conv2dBackwardWeight::forward(Saved& saved, const Tensor& x, const Tensor& dy) const {
  check_conv_dtypes("conv2d_backward_weight", x, dy);
  WICK_CHECK(kernel.rank() == 2 && groups >= 1, "conv2d_backward_weight: kernel and groups: got ",
             kernel, " and ", groups, ", expected two numbers, and 1 or more");
  const Shape weight{dy.size(1), x.size(1) / groups, kernel[0], kernel[1]};
  check_conv_gradient("conv2d_backward_weight", 2, dy, x.shape(), weight, *this);
  save_operands(saved, x, dy);
  return backward_weight(x, dy, weight, *this);
}

Gradients Conv2dBackwardWeight::backward(const Saved& saved, const Tensor& g) const {
  Gradients grads(2);
  if (saved.needs(0)) {
    grads[0] = apply(Conv2dBackwardInput{*this, image_size(saved, 0)}, saved[1], g);
  }
  if (saved.needs(1)) grads[1] = apply(Conv2d{*this}, saved[0], g, Tensor());
  return grads;
}

// Checks what conv2d and conv_transpose2d have in common.
Geometry checked_geometry(const char* op, const Tensor& x, const Tensor& weight,
                          const Shape& stride, const Shape& padding, const Shape& dilation,
                          int64_t groups) {
  WICK_CHECK(x.rank(op) == 4, op, ": x needs 4 axes (N, C, H, W) or 3 (C, H, W): got shape ",
             x.shape());
  WICK_CHECK(weight.rank(op) == 4, op, ": weight needs 4 axes: got shape ", weight.shape());
  WICK_CHECK(groups >= 1 && weight.size(0) % groups == 0 && x.size(1) % groups == 0, op,
             ": channels are not divisible by groups: got x ", x.shape(), ", weight ",
             weight.shape(), ", groups ", groups);
  WICK_CHECK(weight.size(2) >= 1 && weight.size(3) >= 1 && weight.size(0) >= 1, op,
             ": weight is empty: got shape ", weight.shape());
  return {{image_pair(op, "stride", stride, 1), image_pair(op, "padding", padding, 0),
           image_pair(op, "dilation", dilation, 1), groups}};
}

}  // namespace

Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& weight, const Shape& size,
                             const ConvSteps& steps) {
  return apply(Conv2dBackwardInput{{steps}, size}, dy, weight);
}

Tensor conv2d_fused(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Tensor& residual, bool relu, const ConvSteps& steps,
                    const PackedConvWeight& packed) {
  return apply(Conv2dFused{{steps}, relu, packed.algorithm}, x, weight, bias, residual,
               packed.weight);
}

PackedConvWeight pack_conv_weight(const Shape& x, const Shape& y, const Tensor& weight,
                                  const ConvSteps& steps) {
  const Conv2dProblem problem{ConvDirection::kForward, weight.dtype(), x, weight.shape(), y,
                              Geometry{steps}.params()};
  const Device device = weight.device();
  if (!device.is_cpu() || x.numel() == 0 || y.numel() == 0) return {};
  const Tensor kw = weight.contiguous(kImageFormat);
  // Plans that are to be measured are so here, if none is known.
  const auto compute = [&](const ConvPlan& plan) {
    const Tensor images = zeros(x, weight.dtype(), device).contiguous(kImageFormat);
    const Tensor results = empty(y, weight.dtype(), device, kImageFormat);
    AllocatorWorkspace workspace(device);
    cpu::conv2d_forward(images.view_for_kernel(), kw.view_for_kernel(), {},
                        results.view_for_kernel(), problem.params, plan, workspace);
  };
  const ConvAlgorithm algorithm = conv_plan(problem, device, compute).algorithm;
  const int64_t bytes = cpu::conv2d_packed_bytes(problem, algorithm);
  if (bytes == 0) return {};
  const Tensor packed = empty({bytes / size_of(kFloat32)}, kFloat32, device);
  cpu::conv2d_pack(problem, algorithm, kw.view_for_kernel(), packed.raw_data());
  return {packed, static_cast<int64_t>(algorithm)};
}

Tensor conv2d_weight_gradient(const Tensor& x, const Tensor& dy, const Shape& kernel,
                              const ConvSteps& steps) {
  return apply(Conv2dBackwardWeight{{steps}, kernel}, x, dy);
}

namespace {

// conv2d, and conv1d of images one row high: `op` says which.
Tensor convolved(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Shape& stride, const Shape& padding, const Shape& dilation, int64_t groups) {
  if (x.rank(op) == 3) {
    return convolved(op, x.unsqueeze(0), weight, bias, stride, padding, dilation, groups)
        .squeeze(0);
  }
  const Geometry geometry = checked_geometry(op, x, weight, stride, padding, dilation, groups);
  check_conv_bias(op, bias, weight.size(0));
  conv_shape(op, 2, x.shape(), weight.shape(), geometry);  // so that errors name `op`
  return apply(Conv2d{geometry}, x, weight, bias);
}

// conv_transpose2d, and conv_transpose1d of images one row high: `op` says which.
Tensor transposed(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Shape& stride, const Shape& padding, const Shape& output_padding,
                  int64_t groups, const Shape& dilation) {
  if (x.rank(op) == 3) {
    return transposed(op, x.unsqueeze(0), weight, bias, stride, padding, output_padding, groups,
                      dilation)
        .squeeze(0);
  }
  const Geometry geometry = checked_geometry(op, x, weight, stride, padding, dilation, groups);
  const Shape extra = image_pair(op, "output_padding", output_padding, 0);
  WICK_CHECK(x.size(1) == weight.size(0), op, ": channels differ: got x ", x.shape(),
             " and weight ", weight.shape(), ", expected ", weight.size(0), " channels in x");
  const int64_t channels = weight.size(1) * groups;
  check_conv_bias(op, bias, channels);
  Shape size;
  for (const int axis : {0, 1}) {
    WICK_CHECK(extra[axis] < geometry.stride[axis] || extra[axis] < geometry.dilation[axis], op,
               ": output_padding must be less than the stride or the dilation: got ", extra,
               ", stride ", geometry.stride, ", dilation ", geometry.dilation);
    const int64_t steps = checked_mul(op, x.size(axis + 2) - 1, geometry.stride[axis]);
    const int64_t reach = checked_mul(op, geometry.dilation[axis], weight.size(axis + 2) - 1);
    size.push_back(checked_add(op, checked_add(op, steps, reach),
                               extra[axis] + 1 - 2 * geometry.padding[axis]));
  }
  WICK_CHECK(size[0] >= 1 && size[1] >= 1, op, ": the result would be empty: got size ", size,
             " for x ", x.shape(), ", weight ", weight.shape(), ", padding ", geometry.padding);
  // Whole strides of output_padding are rows of zeros behind x: such an x is what a convolution of
  // an image of that size gives.
  const Shape behind{extra[0] / geometry.stride[0], extra[1] / geometry.stride[1]};
  const Tensor longer = behind == Shape{0, 0} ? x : pad(x, {0, behind[1], 0, behind[0]});
  return transposed_with_bias(longer, weight, bias, [&](const Tensor& dy, const Tensor& w) {
    return apply(Conv2dBackwardInput{geometry, size}, dy, w);
  });
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& stride,
              const Shape& padding, const Shape& dilation, int64_t groups) {
  return convolved("conv2d", x, weight, bias, stride, padding, dilation, groups);
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& stride,
              ConvPadding padding, const Shape& dilation, int64_t groups) {
  check_defined("conv2d", x, weight);
  if (padding == ConvPadding::kValid) return conv2d(x, weight, bias, stride, 0, dilation, groups);
  const Shape apart = image_pair("conv2d", "dilation", dilation, 1);
  return conv2d(pad(x, same_padding("conv2d", weight, stride, apart)), weight, bias, stride, 0,
                apart, groups);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t stride,
              int64_t padding, int64_t dilation, int64_t groups) {
  const char* op = "conv1d";
  WICK_CHECK(x.rank(op) == 3 || x.rank() == 2, op,
             ": x needs 3 axes (N, C, L) or 2 (C, L): got shape ", x.shape());
  WICK_CHECK(weight.rank(op) == 3, op, ": weight needs 3 axes: got shape ", weight.shape());
  return convolved(op, x.unsqueeze(-2), weight.unsqueeze(2), bias, {1, stride}, {0, padding},
                   {1, dilation}, groups)
      .squeeze(-2);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t stride,
              ConvPadding padding, int64_t dilation, int64_t groups) {
  check_defined("conv1d", x, weight);
  if (padding == ConvPadding::kValid) return conv1d(x, weight, bias, stride, 0, dilation, groups);
  return conv1d(pad(x, same_padding("conv1d", weight, stride, dilation)), weight, bias, stride, 0,
                dilation, groups);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t stride,
                        int64_t padding, int64_t output_padding, int64_t groups, int64_t dilation) {
  const char* op = "conv_transpose1d";
  WICK_CHECK(x.rank(op) == 3 || x.rank() == 2, op,
             ": x needs 3 axes (N, C, L) or 2 (C, L): got shape ", x.shape());
  WICK_CHECK(weight.rank(op) == 3, op, ": weight needs 3 axes: got shape ", weight.shape());
  return transposed(op, x.unsqueeze(-2), weight.unsqueeze(2), bias, {1, stride}, {0, padding},
                    {0, output_padding}, groups, {1, dilation})
      .squeeze(-2);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Shape& stride, const Shape& padding, const Shape& output_padding,
                        int64_t groups, const Shape& dilation) {
  return transposed("conv_transpose2d", x, weight, bias, stride, padding, output_padding, groups,
                    dilation);
}

}  // namespace wick
