#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wick/core/base/device.h"
#include "wick/core/base/dtype.h"
#include "wick/core/base/shape.h"
#include "wick/core/base/workspace.h"
#include "wick/kernels/cuda/cudnn_api.h"

// A graph of operations from its description to its run, whatever the operations are. Private to
// this folder.
namespace wick::cuda {

inline constexpr int64_t kCudnnAlignment = 16;  // bytes; of all tensors

/// This thread's handle on `device`, which queues on its current stream. Lives as long as the
/// process.
cudnnHandle_t cudnn_handle(Device device);

cudnnDataType_t cudnn_type(Dtype dtype);

/// A tensor, which data are handed over for by `id`, or if it is virtual one that only operations
/// of its graph see.
CudnnDescriptor cudnn_tensor(int64_t id, cudnnDataType_t type, const Shape& sizes,
                             const Shape& strides, bool is_virtual = false);

/// A float of the host's, which cudnn_execute reads where `id` points to.
CudnnDescriptor cudnn_number(int64_t id);

/// Undefined where cuDNN has no such graph.
CudnnDescriptor cudnn_graph(cudnnHandle_t handle,
                            std::span<const CudnnDescriptor* const> operations);

/// What computes a graph: an engine of cuDNN's with its settings. The name says both.
struct CudnnEngine {
  CudnnDescriptor configuration;
  std::string name;
};

/// The engines that cuDNN's heuristics propose, the one that should be fastest first, without those
/// that round what they are given or sum in less than float; for float32 they may use TF32 only if
/// allow_tf32(), and all are deterministic if deterministic(). None for an undefined graph.
std::vector<CudnnEngine> cudnn_engines(const CudnnDescriptor& graph, Dtype dtype);

/// An engine made ready to run.
struct CudnnPlan {
  CudnnDescriptor descriptor;  // undefined: the engine cannot do it, or wants too much memory
  int64_t scratch = 0;         // bytes
};
CudnnPlan cudnn_plan(cudnnHandle_t handle, const CudnnEngine& engine, int64_t most_scratch);

/// The engines for a graph, which must live as long, and the plans made of them so far.
class CudnnSolver {
 public:
  /// Without engines that want more than `most_scratch` bytes.
  CudnnSolver(Device device, const CudnnDescriptor& graph, Dtype dtype, int64_t most_scratch);

  /// As engine.h says.
  std::vector<std::string> engine_names() const;
  /// By engine number `engine`, or for kAnyEngine by the first that works. Undefined if there is
  /// none.
  const CudnnPlan& plan(int engine);

 private:
  const CudnnPlan& plan_of(size_t i);

  Device device_;
  int64_t most_scratch_;
  std::vector<CudnnEngine> engines_;
  std::vector<std::optional<CudnnPlan>> plans_;
  size_t first_working_ = 0;
};

/// Queues a plan on the current stream. `pointers[i]` are the data of tensor `ids[i]`.
void cudnn_execute(Device device, const CudnnPlan& plan, std::span<const int64_t> ids,
                   std::span<void* const> pointers, Workspace& workspace);

}  // namespace wick::cuda
