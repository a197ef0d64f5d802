#include "wick/kernels/conv.h"

#include "wick/kernels/cuda/conv_direct.h"
#include "wick/kernels/cuda/convolution.h"

namespace wick::cuda {

void conv2d_algorithms(const Conv2dProblem& problem, Device device, ConvAlgorithm* algorithms,
                       int* count) {
  constexpr int64_t kFewChannels = 8;  // per group: more would take long to measure, and lose
  *count = 0;
  const bool library = has_convolution(device, problem);
  if (library) algorithms[(*count)++] = ConvAlgorithm::kLibrary;
  if (!library || problem.weight[1] <= kFewChannels) {
    algorithms[(*count)++] = ConvAlgorithm::kDirect;
  }
}

void conv2d_engines(const Conv2dProblem& problem, Device device, ConvEngine* engines, int* count) {
  *count = convolution_engines(device, problem, engines);
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
