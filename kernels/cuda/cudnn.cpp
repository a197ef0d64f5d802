#include <array>
#include <unordered_map>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/tf32.h"
#include "wick/kernels/copy.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/cuda/convolution.h"
#include "wick/kernels/cuda/cudnn_api.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"

// Convolution by cuDNN: a graph of one operation, the first of the plans that its heuristics
// propose which keeps our promises, and that plan again wherever the sizes are the same.
namespace wick::cuda {

namespace {

constexpr int64_t kMostScratch = int64_t{1} << 30;
constexpr size_t kMostPlans = 4096;
constexpr int64_t kAlignment = 16;  // bytes; of all tensors
enum Id : int64_t { kX = 1, kWeight = 2, kY = 3 };

struct Context {
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
};

// One per thread and device, on the current stream; lives as long as the process.
cudnnHandle_t handle_of(Device device) {
  static thread_local std::array<Context, kMaxGpus> contexts = {};
  const cudaStream_t stream = enter_device(device);
  Context& context = contexts[static_cast<size_t>(device.index)];
  if (context.handle == nullptr) check_cudnn(cudnn().create(&context.handle), "cudnnCreate");
  if (context.stream != stream) {
    check_cudnn(cudnn().set_stream(context.handle, stream), "cudnnSetStream");
    context.stream = stream;
  }
  return context.handle;
}

cudnnDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32: return CUDNN_DATA_FLOAT;
    case Dtype::kFloat16: return CUDNN_DATA_HALF;
    case Dtype::kBFloat16: return CUDNN_DATA_BFLOAT16;
    default: unsupported_dtype(dtype);
  }
}

CudnnDescriptor channels_last(Id id, Dtype dtype, const Shape& s) {
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(dtype));
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, {s[0], s[1], s[2], s[3]});
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]});
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id});
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {kAlignment});
  tensor.finalize();
  return tensor;
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

// A problem in cuDNN's terms, with the descriptors that it is made of.
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
    graph = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    graph.finalize();
  }
};

// Engines with their settings, the one that should be fastest first.
std::vector<CudnnDescriptor> configurations(const Graph& graph, cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (!heuristics.try_finalize()) return {};
  constexpr auto kName = CUDNN_ATTR_ENGINEHEUR_RESULTS;
  const int64_t count = heuristics.read(kName, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<CudnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < count; ++i) {
    found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(found.back().get());
  }
  const int64_t read = heuristics.read(kName, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, handles.data());
  found.resize(static_cast<size_t>(std::min(read, count)));
  return found;
}

// Whether the engine gives the same bits in every run, and sums in float what it was given.
bool keeps_promises(const CudnnDescriptor& configuration, Dtype dtype) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  if (configuration.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                         static_cast<void*>(&handle)) != 1) {
    return false;
  }
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const int64_t count = engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                    CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes);
  for (int64_t i = 0; i < count; ++i) {
    switch (notes[i]) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return false;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:  // for float32: TF32
        if (dtype == kFloat32 && !allow_tf32()) return false;
        break;
      default: break;
    }
  }
  return true;
}

struct Plan {
  CudnnDescriptor descriptor;  // undefined: cuDNN has none
  int64_t scratch = 0;         // bytes
};

Plan make_plan(Device device, const Conv2dProblem& problem) {
  const cudnnHandle_t handle = handle_of(device);
  const Graph graph(handle, problem);
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const CudnnDescriptor& configuration : configurations(graph, mode)) {
      if (!keeps_promises(configuration, problem.dtype)) continue;
      Plan plan;
      plan.descriptor = CudnnDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.descriptor.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
      plan.descriptor.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (!plan.descriptor.try_finalize()) continue;
      const int64_t count = plan.descriptor.read(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                 CUDNN_TYPE_INT64, 1, &plan.scratch);
      if (count == 1 && plan.scratch <= kMostScratch) return plan;
    }
  }
  return {};
}

using Key = std::array<int64_t, 24>;

Key key_of(Device device, const Conv2dProblem& problem) {
  const Conv2dParams& p = problem.params;
  Key key = {device.index,
             static_cast<int64_t>(problem.direction),
             static_cast<int64_t>(problem.dtype),
             allow_tf32(),
             p.stride[0],
             p.stride[1],
             p.padding[0],
             p.padding[1],
             p.dilation[0],
             p.dilation[1],
             p.groups};
  size_t next = 11;
  for (const Shape* shape : {&problem.x, &problem.weight, &problem.y}) {
    for (const int64_t size : *shape) key[next++] = size;
  }
  return key;
}

struct HashOfKey {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const int64_t value : key) hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3u;
    return static_cast<size_t>(hash ^ hash >> 32);
  }
};

const Plan& plan_for(Device device, const Conv2dProblem& problem) {
  static thread_local std::unordered_map<Key, Plan, HashOfKey> plans;
  const Key key = key_of(device, problem);
  const auto found = plans.find(key);
  if (found != plans.end()) return found->second;
  if (plans.size() >= kMostPlans) plans.clear();
  return plans.emplace(key, make_plan(device, problem)).first->second;
}

// `x` where plans may use it: itself, or memory of the workspace.
View aligned(const View& x, Workspace& workspace, bool is_input) {
  if (reinterpret_cast<uintptr_t>(x.data) % static_cast<uintptr_t>(kAlignment) == 0) return x;
  View other = x;
  other.data = workspace.allocate(static_cast<size_t>(x.numel() * size_of(x.dtype)));
  if (is_input) copy(x, other);
  return other;
}

void execute(Device device, const Plan& plan, const View& x, const View& weight, const View& y,
             Workspace& workspace) {
  const int64_t ids[] = {kX, kWeight, kY};
  const void* const pointers[] = {x.data, weight.data, y.data};
  void* const scratch = workspace.allocate(static_cast<size_t>(plan.scratch));
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3,
           static_cast<const void*>(pointers));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, scratch);
  pack.finalize();
  check_cudnn(cudnn().execute(handle_of(device), plan.descriptor.get(), pack.get()),
              "cudnnBackendExecute");
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
  return problem.dtype != kFloat64 && plan_for(device, problem).descriptor.defined();
}

void convolution(ConvDirection direction, const View& x, const View& weight, const View& bias,
                 const View& y, const Conv2dParams& params, Workspace& workspace) {
  const Device device = y.device;
  const Plan& plan = plan_for(device, {direction, y.dtype, x.shape, weight.shape, y.shape, params});
  WICK_CHECK(plan.descriptor.defined(), "conv2d: cuDNN has no plan for x ", x.shape, ", weight ",
             weight.shape, " in ", y.dtype);
  const View kx = aligned(x, workspace, direction != ConvDirection::kBackwardData);
  const View kw = aligned(weight, workspace, direction != ConvDirection::kBackwardWeights);
  const View ky = aligned(y, workspace, direction != ConvDirection::kForward);
  execute(device, plan, kx, kw, ky, workspace);
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
