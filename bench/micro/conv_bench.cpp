// Convolutions of ResNet-18, forward and both gradients, by each algorithm: GFLOP/s as the direct
// method counts them. bench_micro --benchmark_filter='conv/cifar/.*forward'

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "wick/core/memory/workspace.h"
#include "wick/core/tensor.h"
#include "wick/kernels/conv.h"

namespace wick {
namespace {

struct Layer {
  const char* net;
  int64_t n, c, size, k, kernel, stride, padding;
};

constexpr Layer kLayers[] = {
    {"cifar", 128, 3, 32, 64, 3, 1, 1},      {"cifar", 128, 64, 32, 64, 3, 1, 1},
    {"cifar", 128, 64, 32, 128, 3, 2, 1},    {"cifar", 128, 64, 32, 128, 1, 2, 0},
    {"cifar", 128, 128, 16, 128, 3, 1, 1},   {"cifar", 128, 256, 8, 256, 3, 1, 1},
    {"cifar", 128, 512, 4, 512, 3, 1, 1},    {"imagenet", 16, 3, 224, 64, 7, 2, 3},
    {"imagenet", 16, 64, 56, 64, 3, 1, 1},   {"imagenet", 16, 128, 28, 128, 3, 1, 1},
    {"imagenet", 16, 256, 14, 256, 3, 1, 1}, {"imagenet", 16, 512, 7, 512, 3, 1, 1},
};

Tensor image(const Shape& shape, Dtype dtype) {
  Tensor x = empty(shape, kFloat32, kCpu, MemoryFormat::kChannelsLast);
  return x.uniform_(-1, 1).to(dtype);
}

void convolve(benchmark::State& state, const Layer& layer, Conv2dProblem problem,
              ConvAlgorithm algorithm) {
  const Tensor x = image(problem.x, problem.dtype), w = image(problem.weight, problem.dtype);
  const Tensor y = image(problem.y, problem.dtype);
  const View vx = x.view_for_kernel(), vw = w.view_for_kernel(), vy = y.view_for_kernel();
  for (auto _ : state) {
    AllocatorWorkspace workspace(kCpu);
    switch (problem.direction) {
      case ConvDirection::kForward:
        WICK_DISPATCH(kCpu, conv2d_forward(vx, vw, {}, vy, problem.params, algorithm, workspace));
        break;
      case ConvDirection::kBackwardData:
        WICK_DISPATCH(kCpu, conv2d_backward_data(vy, vw, vx, problem.params, algorithm, workspace));
        break;
      case ConvDirection::kBackwardWeights:
        WICK_DISPATCH(kCpu,
                      conv2d_backward_weights(vx, vy, vw, problem.params, algorithm, workspace));
        break;
    }
  }
  const double flops = 2.0 * static_cast<double>(y.numel()) *
                       static_cast<double>(layer.c * layer.kernel * layer.kernel);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

const bool registered = [] {
  const char* const directions[] = {"forward", "backward_input", "backward_weight"};
  const char* const algorithms[] = {"direct", "winograd", "im2col"};
  for (const Dtype dtype : {kFloat32, kBFloat16}) {
    for (const Layer& l : kLayers) {
      const int64_t out = (l.size + 2 * l.padding - l.kernel) / l.stride + 1;
      for (int d = 0; d < 3; ++d) {
        const Conv2dProblem problem{static_cast<ConvDirection>(d),
                                    dtype,
                                    {l.n, l.c, l.size, l.size},
                                    {l.k, l.c, l.kernel, l.kernel},
                                    {l.n, l.k, out, out},
                                    {{l.stride, l.stride}, {l.padding, l.padding}, {1, 1}, 1}};
        ConvAlgorithm list[kConvAlgorithms];
        int count = 0;
        WICK_DISPATCH(kCpu, conv2d_algorithms(problem, kCpu, list, &count));
        for (int i = 0; i < count; ++i) {
          const std::string name =
              concat("conv/", l.net, "/", to_string(dtype), "/c", l.c, "_", l.size, "x", l.size,
                     "_k", l.k, "_", l.kernel, "x", l.kernel, "_s", l.stride, "/", directions[d],
                     "/", algorithms[static_cast<int>(list[i])], i == 0 ? "*" : "");
          const ConvAlgorithm algorithm = list[i];
          benchmark::RegisterBenchmark(
              name.c_str(),
              [=](benchmark::State& state) { convolve(state, l, problem, algorithm); })
              ->UseRealTime()
              ->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace wick
