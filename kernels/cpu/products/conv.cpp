#include "wick/kernels/conv.h"

#include <algorithm>

#include "wick/kernels/activate.h"
#include "wick/kernels/cpu/amx.h"
#include "wick/kernels/cpu/direct_convolution.h"
#include "wick/kernels/cpu/product.h"
#include "wick/kernels/cpu/products/im2col.h"
#include "wick/kernels/cpu/winograd.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_ops_activation.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"

namespace wick::cpu {

namespace {

bool winograd_shape(const Conv2dProblem& problem) {
  const Conv2dParams& p = problem.params;
  const Shape& w = problem.weight;
  return (problem.dtype == kFloat32 || problem.dtype == kBFloat16) && p.groups == 1 && w[2] == 3 &&
         w[3] == 3 && p.stride[0] == 1 && p.stride[1] == 1 && p.dilation[0] == 1 &&
         p.dilation[1] == 1 && p.padding[0] <= 2 && p.padding[1] <= 2 && w[0] % 16 == 0 &&
         w[1] % 16 == 0;
}

// Whether bfloat16's products run in matrix units, some ten times as fast as float32's; without,
// they are at most twice as fast.
bool has_matrix_units() { return bfloat16_unit() == BFloat16Unit::kMatrix; }

// Whether the images have few channels.
bool is_first_layer(const Shape& weight, const Conv2dParams& params) {
  return weight[1] % 32 != 0 && (weight[1] + 1) / 2 * 2 * weight[3] <= cpu_avx512::kMostLine &&
         params.dilation[1] == 1;
}

bool amx_shape(const Conv2dProblem& problem) {
  const Shape& w = problem.weight;
  const bool is_first =
      problem.direction != ConvDirection::kBackwardData && is_first_layer(w, problem.params);
  return problem.dtype == kBFloat16 && problem.params.groups == 1 && w[0] % 32 == 0 &&
         (w[1] % 32 == 0 || is_first) && w[2] * w[3] <= cpu_avx512::kMostTaps && has_matrix_units();
}

// 1 x 1 layers are products, which need no copy of the image with zeros around it: 1.2 to 2.1 times
// as fast on AMX as its tiles of images, measured.
bool is_product(const Conv2dProblem& problem) {
  const Shape& w = problem.weight;
  return w[2] * w[3] == 1 && w[1] % 32 == 0 && problem.direction != ConvDirection::kBackwardData &&
         amx_shape(problem);
}

bool is_depthwise(const Shape& weight, const Conv2dParams& params) {
  return weight[1] == 1 && weight[0] == params.groups;
}

// Below so many products a convolution takes a millisecond at most, and float32 takes the direct
// way, whose error is half of Winograd's.
constexpr int64_t kWinogradProducts = int64_t{32} << 20;

// Winograd wins (1.1 to 2.8 times, bfloat16 1.3 to 1.7 times, measured on Zen 4) unless the
// transform of the weights weighs more than few pixels' products, or most of its tiles' elements
// lie over the image's edge.
bool prefers_winograd(const Conv2dProblem& problem) {
  const int64_t rows = problem.y[2], columns = problem.y[3];
  const int64_t covered = (rows + 3) / 4 * 4 * ((columns + 3) / 4) * 4;
  const int64_t weights = problem.weight[0] * problem.weight[1];
  const int64_t pixels = problem.y[0] * rows * columns;
  if (2 * rows * columns < covered) return false;
  if (problem.dtype == kBFloat16) return !has_matrix_units() && 160 * pixels >= weights;
  return pixels >= std::clamp<int64_t>(weights / 1024, 64, 256) &&
         9 * weights * pixels >= kWinogradProducts;
}

// Gradients of images of few channels: their products fill vectors with those of all elements of
// the kernel, not of one.
bool prefers_im2col(const Conv2dProblem& problem) {
  const Shape& w = problem.weight;
  return problem.direction == ConvDirection::kBackwardData && w[1] <= 4 && w[2] * w[3] > 1 &&
         !is_depthwise(w, problem.params);
}

bool is_direct(ConvAlgorithm algorithm, const View& weight, const Conv2dParams& params) {
  return algorithm == ConvAlgorithm::kDirect && !is_depthwise(weight.shape, params);
}

// Without data.
View view_of(const Shape& shape, Dtype dtype) {
  View view;
  view.shape = shape;
  view.dtype = dtype;
  return view;
}

}  // namespace

bool convolves(Dtype dtype) {
  return dtype != kFloat16 && (dtype != kBFloat16 || bfloat16_unit() != BFloat16Unit::kFloat32);
}

void conv2d_algorithms(const Conv2dProblem& problem, Device, ConvAlgorithm* algorithms,
                       int* count) {
  const auto add = [&](ConvAlgorithm algorithm) { algorithms[(*count)++] = algorithm; };
  const bool winograd = winograd_shape(problem);
  const bool winograd_first = winograd && prefers_winograd(problem);
  *count = 0;
  if (!convolves(problem.dtype)) return add(ConvAlgorithm::kIm2col);
  const bool im2col_first = prefers_im2col(problem) || is_product(problem);
  if (im2col_first) add(ConvAlgorithm::kIm2col);
  if (amx_shape(problem)) add(ConvAlgorithm::kAmx);
  if (winograd_first) add(ConvAlgorithm::kWinograd);
  add(ConvAlgorithm::kDirect);
  if (winograd && !winograd_first) add(ConvAlgorithm::kWinograd);
  if (!im2col_first) add(ConvAlgorithm::kIm2col);
}

void conv2d_engines(const Conv2dProblem&, Device, std::vector<std::string>* engines) {
  engines->clear();
}

void conv2d_forward(const View& x, const View& weight, const View& bias, const View& y,
                    const Conv2dParams& params, const ConvPlan& plan, Workspace& workspace) {
  conv2d_fused(x, weight, nullptr, {.bias = bias}, y, params, plan, workspace);
}

void conv2d_fused(const View& x, const View& weight, const void* packed,
                  const ConvEpilogue& epilogue, const View& y, const Conv2dParams& params,
                  const ConvPlan& plan, Workspace& workspace) {
  const bool is_whole = y.dtype != kBFloat16;  // what follows another dtype's sums is rounded twice
  if (plan.algorithm == ConvAlgorithm::kWinograd && is_whole) {
    return WICK_CALL_CPU(
        winograd_forward(x, weight, packed, epilogue, y, params.padding, workspace));
  }
  if (is_direct(plan.algorithm, weight, params) && is_whole) {
    return WICK_CALL_CPU(direct_forward(x, weight, packed, epilogue, y, params, workspace));
  }
  if (plan.algorithm == ConvAlgorithm::kIm2col) {
    return im2col_forward(x, weight, epilogue, y, params, workspace);
  }
  const View& bias = epilogue.bias;
  if (plan.algorithm == ConvAlgorithm::kWinograd) {
    WICK_CALL_CPU(winograd_forward(x, weight, nullptr, {bias}, y, params.padding, workspace));
  } else if (plan.algorithm == ConvAlgorithm::kAmx) {
    const bool is_first = is_first_layer(weight.shape, params);
    const auto run = is_first ? &cpu_avx512::amx_first_layer : &cpu_avx512::amx_forward;
    run(x, weight, bias, y, params, workspace);
  } else if (is_depthwise(weight.shape, params)) {
    WICK_CALL_CPU(depthwise_forward(x, weight, bias, y, params, workspace));
  } else {
    WICK_CALL_CPU(direct_forward(x, weight, nullptr, {bias}, y, params, workspace));
  }
  if (epilogue.residual.defined()) {
    const View both[] = {y, epilogue.residual};
    WICK_CALL_CPU(elementwise(fn::Add{}, y.dtype, y, both));
  }
  if (epilogue.relu) activate(Activation::kRelu, y, y);
}

int64_t conv2d_packed_bytes(const Conv2dProblem& problem, ConvAlgorithm algorithm) {
  const View weight = view_of(problem.weight, problem.dtype);
  if (problem.dtype != kFloat32 || problem.direction != ConvDirection::kForward) return 0;
  int64_t bytes = 0;
  if (algorithm == ConvAlgorithm::kWinograd) {
    WICK_CALL_CPU(winograd_packed_bytes(problem.weight, &bytes));
  } else if (is_direct(algorithm, weight, problem.params)) {
    WICK_CALL_CPU(direct_packed_bytes(view_of(problem.x, kFloat32), weight,
                                      view_of(problem.y, kFloat32), problem.params, &bytes));
  }
  return bytes;
}

void conv2d_pack(const Conv2dProblem& problem, ConvAlgorithm algorithm, const View& weight,
                 void* packed) {
  if (algorithm == ConvAlgorithm::kWinograd) return WICK_CALL_CPU(winograd_pack(weight, packed));
  WICK_CALL_CPU(direct_pack(view_of(problem.x, kFloat32), weight, view_of(problem.y, kFloat32),
                            problem.params, packed));
}

void conv2d_backward_data(const View& dy, const View& weight, const View& dx,
                          const Conv2dParams& params, const ConvPlan& plan, Workspace& workspace) {
  if (plan.algorithm == ConvAlgorithm::kIm2col) {
    return im2col_backward_data(dy, weight, dx, params, workspace);
  }
  if (plan.algorithm == ConvAlgorithm::kWinograd) {
    return WICK_CALL_CPU(winograd_backward_data(dy, weight, dx, params.padding, workspace));
  }
  if (plan.algorithm == ConvAlgorithm::kAmx) {
    return cpu_avx512::amx_backward_data(dy, weight, dx, params, workspace);
  }
  if (is_depthwise(weight.shape, params))
    return WICK_CALL_CPU(depthwise_backward_data(dy, weight, dx, params, workspace));
  WICK_CALL_CPU(direct_backward_data(dy, weight, dx, params, workspace));
}

void conv2d_backward_weights(const View& x, const View& dy, const View& dweight,
                             const Conv2dParams& params, const ConvPlan& plan,
                             Workspace& workspace) {
  if (plan.algorithm == ConvAlgorithm::kIm2col) {
    return im2col_backward_weights(x, dy, dweight, params, workspace);
  }
  if (plan.algorithm == ConvAlgorithm::kWinograd) {
    return WICK_CALL_CPU(winograd_backward_weights(x, dy, dweight, params.padding, workspace));
  }
  if (plan.algorithm == ConvAlgorithm::kAmx) {
    const bool is_first = is_first_layer(dweight.shape, params);
    const auto run =
        is_first ? &cpu_avx512::amx_first_backward_weights : &cpu_avx512::amx_backward_weights;
    return run(x, dy, dweight, params, workspace);
  }
  if (is_depthwise(dweight.shape, params))
    return WICK_CALL_CPU(depthwise_backward_weights(x, dy, dweight, params, workspace));
  WICK_CALL_CPU(direct_backward_weights(x, dy, dweight, params, workspace));
}

}  // namespace wick::cpu
