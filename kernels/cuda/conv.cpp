#include "wick/kernels/conv.h"

#include <atomic>
#include <cstdio>

#include "wick/core/base/check.h"
#include "wick/core/base/deterministic.h"
#include "wick/kernels/cuda/conv_direct.h"
#include "wick/kernels/cuda/convolution.h"

namespace wick::cuda {

namespace {

// A plain kernel takes many times as long, which its user would else look for in vain.
void warn_of_direct(const Conv2dProblem& p) {
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  if (said.test_and_set()) return;
  const std::string text =
      concat("wick: conv2d: cuDNN has no plan for x ", p.x, ", weight ", p.weight, " in ", p.dtype,
             deterministic() ? " that is deterministic" : "", ": a slow kernel computes it\n");
  std::fputs(text.c_str(), stderr);
}

}  // namespace

void conv2d_algorithms(const Conv2dProblem& problem, Device device, ConvAlgorithm* algorithms,
                       int* count) {
  constexpr int64_t kFewChannels = 8;  // per group: more would take long to measure, and lose
  *count = 0;
  const bool library = has_convolution(device, problem);
  if (!library && problem.dtype != kFloat64) warn_of_direct(problem);
  if (library) algorithms[(*count)++] = ConvAlgorithm::kLibrary;
  if (!library || problem.weight[1] <= kFewChannels) {
    algorithms[(*count)++] = ConvAlgorithm::kDirect;
  }
}

void conv2d_engines(const Conv2dProblem& problem, Device device,
                    std::vector<std::string>* engines) {
  *engines = convolution_engines(device, problem);
}

void conv2d_forward(const View& x, const View& weight, const View& bias, const View& y,
                    const Conv2dParams& params, const ConvPlan& plan, Workspace& workspace) {
  if (plan.algorithm == ConvAlgorithm::kDirect) return direct_forward(x, weight, bias, y, params);
  convolution(ConvDirection::kForward, x, weight, bias, y, params, plan.engine, workspace);
}

void conv2d_backward_data(const View& dy, const View& weight, const View& dx,
                          const Conv2dParams& params, const ConvPlan& plan, Workspace& workspace) {
  if (plan.algorithm == ConvAlgorithm::kDirect) return direct_backward_data(dy, weight, dx, params);
  convolution(ConvDirection::kBackwardData, dx, weight, {}, dy, params, plan.engine, workspace);
}

void conv2d_backward_weights(const View& x, const View& dy, const View& dweight,
                             const Conv2dParams& params, const ConvPlan& plan,
                             Workspace& workspace) {
  if (plan.algorithm == ConvAlgorithm::kDirect) {
    return direct_backward_weights(x, dy, dweight, params, workspace);
  }
  convolution(ConvDirection::kBackwardWeights, x, dweight, {}, dy, params, plan.engine, workspace);
}

}  // namespace wick::cuda
