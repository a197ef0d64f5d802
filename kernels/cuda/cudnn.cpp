#include <unordered_map>

#include "wick/core/base/check.h"
#include "wick/kernels/conv_key.h"
#include "wick/kernels/copy.h"
#include "wick/kernels/cuda/convolution.h"
#include "wick/kernels/cuda/cudnn_graph.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"

// Convolution by cuDNN: a graph of one operation, and for each engine that is asked for a plan,
// which serves again wherever the sizes are the same.
namespace wick::cuda {

namespace {

constexpr int64_t kMostScratch = int64_t{1} << 30;
constexpr size_t kMostProblems = 4096;
enum Id : int64_t { kX = 1, kWeight = 2, kY = 3 };

CudnnDescriptor channels_last(Id id, Dtype dtype, const Shape& s) {
  return cudnn_tensor(id, cudnn_type(dtype), s, {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]});
}

CudnnDescriptor describe_convolution(const Conv2dParams& p) {
  CudnnDescriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                  CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {p.padding[0], p.padding[1]});
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {p.padding[0], p.padding[1]});
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {p.dilation[0], p.dilation[1]});
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {p.stride[0], p.stride[1]});
  convolution.finalize();
  return convolution;
}

// What a direction's operation and its attributes are called.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, weight, y;
};
const Names& names_of(ConvDirection direction) {
  static constexpr Names kForward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
  static constexpr Names kData{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
  static constexpr Names kWeights{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  switch (direction) {
    case ConvDirection::kBackwardData: return kData;
    case ConvDirection::kBackwardWeights: return kWeights;
    default: return kForward;
  }
}

// The descriptors of a graph must live as long as its plans are made from it.
struct Graph {
  CudnnDescriptor x, weight, y, convolution, operation, graph;

  Graph(cudnnHandle_t handle, const Conv2dProblem& problem)
      : x(channels_last(kX, problem.dtype, problem.x)),
        weight(channels_last(kWeight, problem.dtype, problem.weight)),
        y(channels_last(kY, problem.dtype, problem.y)),
        convolution(describe_convolution(problem.params)) {
    const Names& names = names_of(problem.direction);
    operation = CudnnDescriptor(names.operation);
    operation.set(names.x, x);
    operation.set(names.weight, weight);
    operation.set(names.y, y);
    operation.set(names.convolution, convolution);
    operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
    operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
    operation.finalize();
    const CudnnDescriptor* const operations[] = {&operation};
    graph = cudnn_graph(handle, operations);
  }
};

struct Solver {
  Graph graph;
  CudnnSolver engines;

  Solver(Device device, const Conv2dProblem& problem)
      : graph(cudnn_handle(device), problem),
        engines(device, graph.graph, problem.dtype, kMostScratch) {}
};

CudnnSolver& solver_for(Device device, const Conv2dProblem& problem) {
  static thread_local std::unordered_map<PlanKey, Solver, HashOfPlanKey> solvers;
  const PlanKey key = plan_key(device, problem);
  const auto found = solvers.find(key);
  if (found != solvers.end()) return found->second.engines;
  if (solvers.size() >= kMostProblems) solvers.clear();
  return solvers.emplace(key, Solver(device, problem)).first->second.engines;
}

// `x` where plans may use it: itself, or memory of the workspace.
View aligned(const View& x, Workspace& workspace, bool is_input) {
  if (reinterpret_cast<uintptr_t>(x.data) % static_cast<uintptr_t>(kCudnnAlignment) == 0) return x;
  View other = x;
  other.data = workspace.allocate(static_cast<size_t>(x.numel() * size_of(x.dtype)));
  if (is_input) copy(x, other);
  return other;
}

void add_bias(const View& y, const View& bias) {
  View spread = bias;
  spread.shape = {bias.shape[0], 1, 1};
  spread.strides = {1, 0, 0};
  const View operands[] = {y, spread};
  elementwise(fn::Add{}, y.dtype, y, operands);
}

}  // namespace

bool has_convolution(Device device, const Conv2dProblem& problem) {
  return problem.dtype != kFloat64 &&
         solver_for(device, problem).plan(kAnyEngine).descriptor.defined();
}

std::vector<std::string> convolution_engines(Device device, const Conv2dProblem& problem) {
  return solver_for(device, problem).engine_names();
}

void convolution(ConvDirection direction, const View& x, const View& weight, const View& bias,
                 const View& y, const Conv2dParams& params, int engine, Workspace& workspace) {
  const Device device = y.device;
  const CudnnPlan& plan =
      solver_for(device, {direction, y.dtype, x.shape, weight.shape, y.shape, params}).plan(engine);
  WICK_CHECK(plan.descriptor.defined(), "conv2d: cuDNN has no plan for x ", x.shape, ", weight ",
             weight.shape, " in ", y.dtype);
  const View kx = aligned(x, workspace, direction != ConvDirection::kBackwardData);
  const View kw = aligned(weight, workspace, direction != ConvDirection::kBackwardWeights);
  const View ky = aligned(y, workspace, direction != ConvDirection::kForward);
  constexpr int64_t kIds[] = {kX, kWeight, kY};
  void* const pointers[] = {kx.data, kw.data, ky.data};
  cudnn_execute(device, plan, kIds, pointers, workspace);
  const View& out = direction == ConvDirection::kForward        ? y
                    : direction == ConvDirection::kBackwardData ? x
                                                                : weight;
  const View& computed = direction == ConvDirection::kForward        ? ky
                         : direction == ConvDirection::kBackwardData ? kx
                                                                     : kw;
  if (computed.data != out.data) copy(computed, out);
  if (bias.defined()) add_bias(y, bias);
}

}  // namespace wick::cuda
