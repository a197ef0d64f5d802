#include <array>
#include <map>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/deterministic.h"
#include "wick/kernels/attention.h"
#include "wick/kernels/cuda/cudnn_graph.h"

// Attention by cuDNN, a graph of one operation, which keeps a number per row for its gradients
// instead of the weights (Dao et al. 2022, arXiv 2205.14135).
namespace wick::cuda {

namespace {

constexpr size_t kMostAttentions = 1024;
enum Id : int64_t { kQ = 1, kK, kV, kO, kStats, kScale, kDo, kDq, kDk, kDv };

/// Shapes and strides of q, k, v and o, and what else a plan depends on.
using Key = std::array<int64_t, 36>;

Key key_of(Device device, const Attention& a, bool backward) {
  Key key = {device.index, static_cast<int64_t>(a.q.dtype), backward, deterministic()};
  size_t next = 4;
  for (const View* x : {&a.q, &a.k, &a.v, &a.o}) {
    for (int axis = 0; axis < 4; ++axis) {
      key[next++] = x->shape[axis];
      key[next++] = x->strides[axis];
    }
  }
  return key;
}

CudnnDescriptor tensor(Id id, const View& x) {
  return cudnn_tensor(id, cudnn_type(x.dtype), x.shape, x.strides);
}
CudnnDescriptor gradient(Id id, const View& x) {
  return cudnn_tensor(id, cudnn_type(x.dtype), x.shape, contiguous_strides(x.shape));
}
// One row's statistics, whether or not there is memory for them yet.
CudnnDescriptor stats_of(const View& o) {
  const Shape& s = o.shape;
  return cudnn_tensor(kStats, CUDNN_DATA_FLOAT, {s[0], s[1], s[2], 1}, {s[1] * s[2], s[2], 1, 1});
}

// The descriptors of a graph must live as long as its plans are made from it.
struct Graph {
  std::vector<CudnnDescriptor> tensors;
  CudnnDescriptor operation, graph;

  Graph(cudnnHandle_t handle, const Attention& a, bool backward)
      : operation(backward ? CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR
                           : CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR) {
    const auto add = [this](cudnnBackendAttributeName_t name, CudnnDescriptor x) {
      operation.set(name, x);
      tensors.push_back(std::move(x));
    };
    if (backward) {
      add(CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, tensor(kQ, a.q));
      add(CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC, tensor(kK, a.k));
      add(CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC, tensor(kV, a.v));
      add(CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC, tensor(kO, a.o));
      add(CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC, stats_of(a.o));
      add(CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC, cudnn_number(kScale));
      add(CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, gradient(kDo, a.o));
      add(CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, gradient(kDq, a.q));
      add(CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC, gradient(kDk, a.k));
      add(CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, gradient(kDv, a.v));
    } else {
      add(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, tensor(kQ, a.q));
      add(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, tensor(kK, a.k));
      add(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, tensor(kV, a.v));
      add(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, tensor(kO, a.o));
      add(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, stats_of(a.o));
      add(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, cudnn_number(kScale));
    }
    if (!operation.try_finalize()) return;
    const CudnnDescriptor* const operations[] = {&operation};
    graph = cudnn_graph(handle, operations);
  }
};

// The first plan that works; undefined if there is none.
CudnnPlan make_plan(Device device, const Attention& a, bool backward) {
  const cudnnHandle_t handle = cudnn_handle(device);
  const Graph graph(handle, a, backward);
  if (!graph.graph.defined()) return {};
  for (const CudnnEngine& engine : cudnn_engines(graph.graph, a.q.dtype)) {
    CudnnPlan plan = cudnn_plan(handle, engine);
    if (plan.descriptor.defined()) return plan;
  }
  return {};
}

const CudnnPlan& plan_for(Device device, const Attention& a, bool backward) {
  static thread_local std::map<Key, CudnnPlan> plans;
  const Key key = key_of(device, a, backward);
  const auto found = plans.find(key);
  if (found != plans.end()) return found->second;
  if (plans.size() >= kMostAttentions) plans.clear();
  return plans.emplace(key, make_plan(device, a, backward)).first->second;
}

void run(const Attention& a, bool backward, std::span<const int64_t> ids,
         std::span<void* const> pointers, Workspace& workspace) {
  const CudnnPlan& plan = plan_for(a.q.device, a, backward);
  WICK_CHECK(plan.descriptor.defined(), "attention: cuDNN has no plan for query ", a.q.shape,
             ", key ", a.k.shape, " in ", a.q.dtype);
  cudnn_execute(a.q.device, plan, ids, pointers, workspace);
}

}  // namespace

bool has_attention(Device device, const Attention& attention) {
  return plan_for(device, attention, false).descriptor.defined() &&
         plan_for(device, attention, true).descriptor.defined();
}

void attention_forward(const Attention& a, Workspace& workspace) {
  float scale = a.scale;
  constexpr int64_t kIds[] = {kQ, kK, kV, kO, kStats, kScale};
  void* const pointers[] = {a.q.data, a.k.data, a.v.data, a.o.data, a.stats.data, &scale};
  run(a, false, kIds, pointers, workspace);
}

void attention_backward(const Attention& a, const AttentionGradients& g, Workspace& workspace) {
  float scale = a.scale;
  constexpr int64_t kIds[] = {kQ, kK, kV, kO, kStats, kScale, kDo, kDq, kDk, kDv};
  void* const pointers[] = {a.q.data, a.k.data,   a.v.data,  a.o.data,  a.stats.data,
                            &scale,   g.d_o.data, g.dq.data, g.dk.data, g.dv.data};
  run(a, true, kIds, pointers, workspace);
}

}  // namespace wick::cuda
