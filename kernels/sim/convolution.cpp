#include "wick/kernels/cuda/convolution.h"

#include "wick/core/base/check.h"
#include "wick/core/base/deterministic.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/sim/library.h"
#include "wick/kernels/sim/simulator.h"

// Stands for cuDNN.
namespace wick::cuda {

namespace {

struct Arguments {
  ConvDirection direction;
  View x, weight, bias, y;
  Conv2dParams params;
};

void compute(const Arguments& arguments) {
  sim::HostWorkspace host;
  const ConvDirection direction = arguments.direction;
  const View x = sim::computable(arguments.x, host, direction != ConvDirection::kBackwardData);
  const View weight =
      sim::computable(arguments.weight, host, direction != ConvDirection::kBackwardWeights);
  const View bias = sim::computable(arguments.bias, host, true);
  const View y = sim::computable(arguments.y, host, direction != ConvDirection::kForward);
  ConvAlgorithm algorithms[kConvAlgorithms];
  int count = 0;
  const Conv2dParams& params = arguments.params;
  cpu::conv2d_algorithms({direction, x.dtype, x.shape, weight.shape, y.shape, params}, kCpu,
                         algorithms, &count);
  // Not the least exact one: what is compared with the CPU is the GPU's side.
  const ConvAlgorithm algorithm =
      algorithms[0] == ConvAlgorithm::kWinograd && count > 1 ? algorithms[1] : algorithms[0];
  switch (direction) {
    case ConvDirection::kForward:
      cpu::conv2d_forward(x, weight, bias, y, params, algorithm, host);
      return sim::copy_back(y, arguments.y);
    case ConvDirection::kBackwardData:
      cpu::conv2d_backward_data(y, weight, x, params, algorithm, host);
      return sim::copy_back(x, arguments.x);
    case ConvDirection::kBackwardWeights:
      cpu::conv2d_backward_weights(x, y, weight, params, algorithm, host);
      return sim::copy_back(weight, arguments.weight);
  }
}

void check_image(const char* what, const View& x) {
  sim::check_argument(sim::kCudnnCall, what, x);
  WICK_CHECK(x.rank() == 4 && is_channels_last(x.shape, x.strides) && x.numel() > 0,
             sim::kCudnnCall, ": ", what, " is not a channels-last image: shape ", x.shape,
             ", strides ", x.strides);
}

// The handle and the plan.
void prepare_plan(Device device, const Conv2dProblem& p) {
  sim::prepare("cudnnCreate", to_string(device));
  sim::prepare("cudnnBackendFinalize", concat(device, " ", static_cast<int>(p.direction), " ",
                                              p.dtype, " ", p.x, p.weight));
}

std::vector<sim::Engine> offered() { return sim::offered_engines(deterministic()); }

}  // namespace

std::vector<std::string> convolution_engines(Device device, const Conv2dProblem& problem) {
  prepare_plan(device, problem);
  return sim::engine_names(offered());
}

bool has_convolution(Device device, const Conv2dProblem& problem) {
  if (problem.dtype == kFloat64) return false;
  prepare_plan(device, problem);
  return !offered().empty();
}

void convolution(ConvDirection direction, const View& x, const View& weight, const View& bias,
                 const View& y, const Conv2dParams& params, int engine, Workspace& workspace) {
  const cudaStream_t stream = enter_device(y.device);
  WICK_CHECK(is_floating(x.dtype) && x.dtype != kFloat64, sim::kCudnnCall,
             ": no such dtype: ", x.dtype);
  WICK_CHECK(x.dtype == weight.dtype && x.dtype == y.dtype, sim::kCudnnCall, ": dtypes differ");
  prepare_plan(y.device, {direction, y.dtype, x.shape, weight.shape, y.shape, params});
  check_image("x", x);
  check_image("weight", weight);
  check_image("y", y);
  sim::check_argument(sim::kCudnnCall, "bias", bias);
  void* const scratch = sim::take_scratch(sim::kCudnnCall, workspace);
  const sim::Engine chosen = sim::use_engine(sim::kCudnnCall, offered(), engine);
  const auto run = [scratch, a = Arguments{direction, x, weight, bias, y, params}] {
    const View* const written[] = {&a.y, &a.x, &a.weight};  // by direction
    const sim::LibraryWork work({&a.x, &a.weight, &a.bias, &a.y},
                                {written[static_cast<int>(a.direction)]}, scratch);
    compute(a);
  };
  check(sim::enqueue(sim::kCudnnCall, stream, run, chosen.milliseconds), sim::kCudnnCall);
}

}  // namespace wick::cuda
