#include "wick/kernels/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>

#include "wick/core/base/check.h"
#include "wick/core/base/deterministic.h"
#include "wick/core/base/profiling.h"
#include "wick/core/base/tf32.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/engine.h"

namespace wick::cuda {

namespace {

struct Context {
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
};

// `count` empty descriptors of `type`, for reads to fill.
struct Received {
  std::vector<CudnnDescriptor> descriptors;
  std::vector<cudnnBackendDescriptor_t> handles;

  Received(cudnnBackendDescriptorType_t type, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      descriptors.emplace_back(type);
      handles.push_back(descriptors.back().get());
    }
  }
};

// The descriptors that attribute `name` of `from` holds, up to `most`.
std::vector<CudnnDescriptor> read_all(const CudnnDescriptor& from, cudnnBackendAttributeName_t name,
                                      cudnnBackendDescriptorType_t type, int64_t most) {
  Received received(type, most);
  const int64_t read =
      from.read(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, received.handles.data());
  received.descriptors.resize(static_cast<size_t>(std::min(read, most)));
  return std::move(received.descriptors);
}

std::vector<CudnnDescriptor> configurations(const CudnnDescriptor& graph,
                                            cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (!heuristics.try_finalize()) return {};
  const int64_t count =
      heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  return read_all(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                  count);
}

// "eng12_k2=3_k19=1": the engine and its knobs, as NVIDIA's own tools name them.
std::string name_of(const CudnnDescriptor& configuration, const CudnnDescriptor& engine) {
  int64_t index = -1;
  engine.read(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
  std::string name = concat("eng", index);
  for (const CudnnDescriptor& knob :
       read_all(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    cudnnBackendKnobType_t type = {};
    int64_t value = 0;
    knob.read(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    knob.read(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
    name += concat("_k", static_cast<int64_t>(type), "=", value);
  }
  return name;
}

bool keeps_promises(const CudnnDescriptor& engine, Dtype dtype) {
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const int64_t count = engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                    CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes);
  for (int64_t i = 0; i < count; ++i) {
    switch (notes[i]) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        if (deterministic()) return false;
        break;
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

}  // namespace

cudnnHandle_t cudnn_handle(Device device) {
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

cudnnDataType_t cudnn_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32: return CUDNN_DATA_FLOAT;
    case Dtype::kFloat16: return CUDNN_DATA_HALF;
    case Dtype::kBFloat16: return CUDNN_DATA_BFLOAT16;
    default: unsupported_dtype(dtype);
  }
}

CudnnDescriptor cudnn_tensor(int64_t id, cudnnDataType_t type, const Shape& sizes,
                             const Shape& strides, bool is_virtual) {
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes.rank(), sizes.begin());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.rank(), strides.begin());
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id});
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {kCudnnAlignment});
  if (is_virtual) tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
  tensor.finalize();
  return tensor;
}

CudnnDescriptor cudnn_number(int64_t id) {
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, {1, 1, 1, 1});
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, {1, 1, 1, 1});
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id});
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {int64_t{alignof(float)}});
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  tensor.finalize();
  return tensor;
}

CudnnDescriptor cudnn_graph(cudnnHandle_t handle,
                            std::span<const CudnnDescriptor* const> operations) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const CudnnDescriptor* operation : operations) handles.push_back(operation->get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<int64_t>(handles.size()), handles.data());
  if (!graph.try_finalize()) return {};
  return graph;
}

std::vector<CudnnEngine> cudnn_engines(const CudnnDescriptor& graph, Dtype dtype) {
  std::vector<CudnnEngine> found;
  if (!graph.defined()) return found;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (CudnnDescriptor& configuration : configurations(graph, mode)) {
      const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      cudnnBackendDescriptor_t handle = engine.get();
      if (configuration.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                             static_cast<void*>(&handle)) != 1 ||
          !keeps_promises(engine, dtype)) {
        continue;
      }
      std::string name = name_of(configuration, engine);
      const auto same = [&](const CudnnEngine& other) { return other.name == name; };
      if (std::any_of(found.begin(), found.end(), same)) continue;
      found.push_back({std::move(configuration), std::move(name)});
    }
  }
  return found;
}

CudnnPlan cudnn_plan(cudnnHandle_t handle, const CudnnEngine& engine, int64_t most_scratch) {
  CudnnPlan plan;
  CudnnDescriptor descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
  descriptor.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.configuration);
  if (!descriptor.try_finalize()) return plan;
  const int64_t count =
      descriptor.read(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &plan.scratch);
  if (count == 1 && plan.scratch <= most_scratch) plan.descriptor = std::move(descriptor);
  return plan;
}

CudnnSolver::CudnnSolver(Device device, const CudnnDescriptor& graph, Dtype dtype,
                         int64_t most_scratch)
    : device_(device),
      most_scratch_(most_scratch),
      engines_(cudnn_engines(graph, dtype)),
      plans_(engines_.size()) {}

std::vector<std::string> CudnnSolver::engine_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(engines_.size(), kMostEngines); ++i) {
    names.push_back(engines_[i].name);
  }
  return names;
}

const CudnnPlan& CudnnSolver::plan(int engine) {
  if (engine != kAnyEngine) return plan_of(static_cast<size_t>(engine));
  size_t& i = first_working_;
  while (i < engines_.size() && !plan_of(i).descriptor.defined()) ++i;
  return plan_of(i);
}

const CudnnPlan& CudnnSolver::plan_of(size_t i) {
  static const CudnnPlan none;
  if (i >= engines_.size()) return none;
  if (!plans_[i]) plans_[i] = cudnn_plan(cudnn_handle(device_), engines_[i], most_scratch_);
  return *plans_[i];
}

void cudnn_execute(Device device, const CudnnPlan& plan, std::span<const int64_t> ids,
                   std::span<void* const> pointers, Workspace& workspace) {
  void* const scratch = workspace.allocate(static_cast<size_t>(plan.scratch));
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<int64_t>(ids.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
           static_cast<const void*>(pointers.data()));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, scratch);
  pack.finalize();
  const profile::KernelScope scope("cudnnBackendExecute", device, enter_device(device));
  check_cudnn(cudnn().execute(cudnn_handle(device), plan.descriptor.get(), pack.get()),
              "cudnnBackendExecute");
}

}  // namespace wick::cuda
