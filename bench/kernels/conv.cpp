// Convolutions of ResNet-18, forward and both gradients, by each algorithm that computes them; a
// star marks the one that the fixed rule takes. Operations as the direct method counts them.
// 128x64x32_128_3x3s2: 128 images of 64 channels and 32 x 32 pixels to 128 channels, stride 2.
#include "wick/kernels/conv.h"

#include <memory>

#include "wick/bench/kernels/row.h"
#include "wick/core/memory/detail/workspace.h"

namespace wick::bench::conv_rows {
namespace {

struct Layer {
  int64_t n, c, size, k, kernel, stride, padding;
};

constexpr Layer kLayers[] = {
    {128, 3, 32, 64, 3, 1, 1},   {128, 64, 32, 64, 3, 1, 1},   {128, 64, 32, 128, 3, 2, 1},
    {128, 64, 32, 128, 1, 2, 0}, {128, 128, 16, 128, 3, 1, 1}, {128, 256, 8, 256, 3, 1, 1},
    {128, 512, 4, 512, 3, 1, 1}, {16, 3, 224, 64, 7, 2, 3},    {16, 64, 56, 64, 3, 1, 1},
    {16, 128, 28, 128, 3, 1, 1}, {16, 256, 14, 256, 3, 1, 1},  {16, 512, 7, 512, 3, 1, 1},
};

Conv2dProblem problem_of(const Layer& l, int direction, Dtype dtype, int64_t images) {
  const int64_t out = (l.size + 2 * l.padding - l.kernel) / l.stride + 1;
  return {static_cast<ConvDirection>(direction),
          dtype,
          {images, l.c, l.size, l.size},
          {l.k, l.c, l.kernel, l.kernel},
          {images, l.k, out, out},
          {{l.stride, l.stride}, {l.padding, l.padding}, {1, 1}, 1}};
}

/// x, weight, y; that which the direction computes is overwritten.
using Operands = Tensors;

Operands make_operands(const Conv2dProblem& p) {
  return {normal_images(p.x), normal_images(p.weight), normal_images(p.y)};
}

Operands cast(const Operands& operands, Dtype dtype, Device device) {
  Operands result;
  for (const Tensor& x : operands) result.push_back(x.to(dtype).to(device));
  return result;
}

const Tensor& computed(const Operands& operands, ConvDirection direction) {
  if (direction == ConvDirection::kForward) return operands[2];
  return operands[direction == ConvDirection::kBackwardData ? 0 : 1];
}

void convolve(const Operands& o, const Conv2dProblem& p, const ConvPlan& plan, Device device) {
  const View x = o[0].view_for_kernel(), w = o[1].view_for_kernel(), y = o[2].view_for_kernel();
  AllocatorWorkspace workspace(device);
  switch (p.direction) {
    case ConvDirection::kForward:
      WICK_DISPATCH(device, conv2d_forward(x, w, {}, y, p.params, plan, workspace));
      break;
    case ConvDirection::kBackwardData:
      WICK_DISPATCH(device, conv2d_backward_data(y, w, x, p.params, plan, workspace));
      break;
    case ConvDirection::kBackwardWeights:
      WICK_DISPATCH(device, conv2d_backward_weights(x, y, w, p.params, plan, workspace));
      break;
  }
}

// With the first image alone, by patches and products in float64: all images take too long.
std::string check(Conv2dProblem p, const ConvPlan& plan, Device device) {
  p.x[0] = p.y[0] = 1;
  const Operands values = cast(make_operands(p), p.dtype, kCpu);
  const Operands got = cast(values, p.dtype, device), want = cast(values, kFloat64, kCpu);
  convolve(got, p, plan, device);
  convolve(want, p, ConvAlgorithm::kIm2col, kCpu);
  return difference({computed(got, p.direction)}, {computed(want, p.direction)}, kBFloat16);
}

Work prepare(const Layer& layer, int direction, Dtype dtype, ConvAlgorithm algorithm,
             const Setting& s) {
  const Conv2dProblem p = problem_of(layer, direction, dtype, s.some(layer.n));
  ConvAlgorithm list[kConvAlgorithms];
  int count = 0;
  WICK_DISPATCH(s.device, conv2d_algorithms(p, s.device, list, &count));
  // On a GPU there are others than those that the CPU's names promise: the rule's choice.
  const ConvPlan plan = s.device.is_cuda() ? list[0] : algorithm;
  const Operands operands = cast(make_operands(p), dtype, s.device);
  return {.call = [=] { convolve(operands, p, plan, s.device); },
          .check = [=] { return check(p, plan, s.device); },
          .bytes = bytes_of(operands),
          .flops = 2.0 * static_cast<double>(operands[2].numel()) *
                   static_cast<double>(layer.c * layer.kernel * layer.kernel)};
}

[[maybe_unused]] const bool kAll = [] {
  const char* const directions[] = {"forward", "dinput", "dweight"};
  const char* const algorithms[] = {"direct", "winograd", "im2col", "library", "amx"};
  for (const Dtype dtype : {kFloat32, kBFloat16}) {
    for (const Layer& l : kLayers) {
      for (int d = 0; d < 3; ++d) {
        ConvAlgorithm list[kConvAlgorithms];
        int count = 0;
        WICK_DISPATCH(kCpu, conv2d_algorithms(problem_of(l, d, dtype, l.n), kCpu, list, &count));
        for (int i = 0; i < count; ++i) {
          const ConvAlgorithm algorithm = list[i];
          add_row(
              {.name = concat("conv/", l.n, "x", l.c, "x", l.size, "_", l.k, "_", l.kernel, "x",
                              l.kernel, "s", l.stride, "/", directions[d], "/",
                              algorithms[static_cast<int>(algorithm)], i == 0 ? "*" : "", "/",
                              to_string(dtype)),
               .dtype = dtype,
               .cpu_only = i > 0,
               .prepare = [=](const Setting& s) { return prepare(l, d, dtype, algorithm, s); }});
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace wick::bench::conv_rows
