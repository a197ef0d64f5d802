#include <limits>
#include <unordered_map>

#include "wick/core/base/check.h"
#include "wick/core/base/deterministic.h"
#include "wick/kernels/attention.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/cuda/cudnn_operations.h"

// Attention by cuDNN, which keeps a number per row for its gradients instead of the weights (Dao et
// al. 2022, arXiv 2205.14135). It is described operation by operation, as cuDNN's engines for
// attention know it again: its single operation (CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR) has
// neither masks nor, in 9.19, gradients.
namespace wick::cuda {

namespace {

constexpr size_t kMostAttentions = 1024;
constexpr size_t kLeastVersion = 91600;  // before, gradients need keys in multiples of 128
constexpr int kHopper = 9;               // capability, as the next
constexpr int kBlackwell =
    10;  // capability of GPUs that heuristics propose no deterministic one for

using Tensor = CudnnOperations::Tensor;

enum Id : int64_t {
  kQ = 1,
  kK,
  kV,
  kBias,
  kO,
  kStats,
  kScale,
  kMinusInfinity,
  kOne,
  kDo,
  kDq,
  kDk,
  kDv,
  kRowSums,  // of dy * y
  kDqSums,   // of which dq is made
};

// Those of axes with one element are anything.
Strides steps_of(const View& x) {
  Strides steps = x.strides;
  const Strides dense = contiguous_strides(x.shape);
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (x.shape[axis] == 1) steps[axis] = dense[axis];
  }
  return steps;
}

// One direction of an attention as cuDNN wants to hear of it.
class Description {
 public:
  Description(const Attention& a, AttentionDirection direction)
      : a_(a),
        type_(cudnn_type(a.q.dtype)),
        scores_{a.q.shape[0], a.q.shape[1], a.q.shape[2], a.k.shape[2]},
        rows_{a.q.shape[0], a.q.shape[1], a.q.shape[2], 1} {
    q_ = data(kQ, a.q);
    kt_ = transposed_data(kK, a.k);
    scale_ = number(kScale);
    if (direction == AttentionDirection::kForward) {
      forward();
    } else {
      backward();
    }
  }

  CudnnOperations operations;

 private:
  void forward() {
    const Tensor s = masked(with_bias(scaled_product()));
    const Tensor most = operations.reduce(CUDNN_REDUCE_TENSOR_MAX, s, between(rows_));
    const Tensor e = pointwise(CUDNN_POINTWISE_EXP,
                               pointwise(CUDNN_POINTWISE_SUB, s, most, scores_), nullptr, scores_);
    const Tensor total = operations.reduce(CUDNN_REDUCE_TENSOR_ADD, e, between(rows_));
    const Tensor log = pointwise(CUDNN_POINTWISE_LOG, total, nullptr, rows_);
    operations.pointwise(CUDNN_POINTWISE_ADD, most, log, floats(kStats, rows_));
    const Tensor weights =
        operations.pointwise(CUDNN_POINTWISE_DIV, e, total, operations.between(scores_, type_));
    operations.matmul(weights, data(kV, a_.v), data(kO, a_.o));
  }

  void backward() {
    const Tensor d_o = dense(kDo, a_.o);
    const Tensor dy_y = pointwise(CUDNN_POINTWISE_MUL, d_o, data(kO, a_.o), a_.o.shape);
    const Tensor sums = operations.reduce(CUDNN_REDUCE_TENSOR_ADD, dy_y, between(rows_));
    const Tensor row_sums =
        operations.pointwise(CUDNN_POINTWISE_MUL, sums, number(kOne), floats(kRowSums, rows_));
    // The weights once more, and dv.
    Tensor s = with_bias(scaled_product());
    s = masked(pointwise(CUDNN_POINTWISE_SUB, s, floats(kStats, rows_), scores_));
    const Tensor weights = pointwise(CUDNN_POINTWISE_EXP, s, nullptr, scores_);
    operations.matmul(transposed(weights), d_o, dense(kDv, a_.v));
    // The gradient of the scores, and dk.
    Tensor d = operations.matmul(d_o, transposed_data(kV, a_.v), between(scores_));
    d = pointwise(CUDNN_POINTWISE_SUB, d, row_sums, scores_);
    d = pointwise(CUDNN_POINTWISE_MUL, d, weights, scores_);
    d = pointwise(CUDNN_POINTWISE_MUL, d, scale_, scores_);
    operations.matmul(transposed(d), q_, dense(kDk, a_.k));
    // dq: from all of d at once, or faster, added up by blocks of keys as they come by.
    const Tensor k = operations.reshape(kt_, operations.between(a_.k.shape, steps_of(a_.k), type_));
    if (deterministic()) {
      operations.matmul(d, k, dense(kDq, a_.q));
    } else {
      const Tensor dq = operations.matmul(d, k, floats(kDqSums, a_.q.shape));
      operations.pointwise(CUDNN_POINTWISE_IDENTITY, dq, nullptr, dense(kDq, a_.q));
    }
  }

  Tensor scaled_product() {
    const Tensor s = operations.matmul(q_, kt_, between(scores_));
    return pointwise(CUDNN_POINTWISE_MUL, s, scale_, scores_);
  }

  Tensor with_bias(Tensor s) {
    if (!a_.bias.defined()) return s;
    return pointwise(CUDNN_POINTWISE_ADD, s, dense(kBias, a_.bias), scores_);
  }

  Tensor masked(Tensor s) {
    if (!a_.is_causal) return s;
    const auto place = [&](int64_t axis) {
      return operations.place(s, axis, operations.between(scores_, CUDNN_DATA_INT32));
    };
    const Tensor row = place(2), column = place(3);
    const Tensor is_seen = operations.pointwise(CUDNN_POINTWISE_CMP_GE, row, column,
                                                operations.between(scores_, CUDNN_DATA_BOOLEAN));
    return operations.select(s, number(kMinusInfinity), is_seen, between(scores_));
  }

  Tensor between(const Shape& sizes) { return operations.between(sizes); }
  Tensor pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, const Shape& sizes) {
    return operations.pointwise(mode, x, b, between(sizes));
  }
  Tensor transposed(Tensor scores) {
    const Shape& s = scores_;
    return operations.reshape(
        scores, operations.between({s[0], s[1], s[3], s[2]},
                                   {s[1] * s[2] * s[3], s[2] * s[3], 1, s[3]}, type_));
  }

  Tensor number(Id id) { return operations.add(cudnn_number(id)); }
  Tensor floats(Id id, const Shape& sizes) {
    return operations.add(cudnn_tensor(id, CUDNN_DATA_FLOAT, sizes, contiguous_strides(sizes)));
  }
  Tensor data(Id id, const View& x) {
    return operations.add(cudnn_tensor(id, type_, x.shape, steps_of(x)));
  }
  Tensor transposed_data(Id id, const View& x) {
    const Shape& n = x.shape;
    const Strides s = steps_of(x);
    return operations.add(
        cudnn_tensor(id, type_, {n[0], n[1], n[3], n[2]}, {s[0], s[1], s[3], s[2]}));
  }
  Tensor dense(Id id, const View& of) {
    return operations.add(cudnn_tensor(id, type_, of.shape, contiguous_strides(of.shape)));
  }

  const Attention& a_;
  cudnnDataType_t type_;
  Shape scores_, rows_;
  Tensor q_ = nullptr, kt_ = nullptr, scale_ = nullptr;
};

struct Solver {
  CudnnOperations operations;
  CudnnDescriptor graph;
  CudnnSolver engines;

  Solver(const Attention& a, AttentionDirection direction)
      : operations(Description(a, direction).operations),
        graph(operations.graph(cudnn_handle(a.q.device))),
        // Otherwise there are weights to keep, of as much and until backward.
        engines(a.q.device, graph, a.q.dtype, std::numeric_limits<int64_t>::max()) {}
};

CudnnSolver& solver_for(const Attention& a, AttentionDirection direction) {
  static thread_local std::unordered_map<PlanKey, Solver, HashOfPlanKey> solvers;
  const PlanKey key = plan_key(a, direction);
  const auto found = solvers.find(key);
  if (found != solvers.end()) return found->second.engines;
  if (solvers.size() >= kMostAttentions) solvers.clear();
  return solvers.try_emplace(key, a, direction).first->second.engines;
}

// Whether cuDNN's plans, if it has some, are right.
bool is_reliable(const Attention& a) {
  if (!has_cudnn() || cudnn().version() < kLeastVersion) return false;
  if (a.k.shape[2] == 1)
    return false;  // "unsupported" backward, as 9.18's notes say; still planned
  const int64_t major = compute_capability(a.q.device);
  if (deterministic() && major == kBlackwell) return false;
  // Where a row's sum of exponentials is far below 1, Hopper's gradients were seen to be NaN: of
  // queries, with an odd number of blocks of 64 keys that are all seen (NVIDIA/cudnn-frontend 628,
  // with a bias; without one it was not tried), and of keys and values, with one query (1072 there;
  // cuDNN 9.26 and before).
  const bool half_a_tile = !a.is_causal && a.k.shape[2] % 128 == 64;
  return major != kHopper || (!half_a_tile && a.q.shape[2] > 1);
}

// What a graph's tensors are handed over as, by their numbers.
struct Pack {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  float scale, minus_infinity = -std::numeric_limits<float>::infinity(), one = 1;

  Pack(const Pack&) = delete;
  explicit Pack(const Attention& a) : scale(a.scale) {
    add(kQ, a.q.data);
    add(kK, a.k.data);
    add(kV, a.v.data);
    add(kO, a.o.data);
    add(kStats, a.stats.data);
    add(kScale, &scale);
    if (a.bias.defined()) add(kBias, a.bias.data);
    if (a.is_causal) add(kMinusInfinity, &minus_infinity);
  }
  void add(Id id, void* data) {
    ids.push_back(id);
    pointers.push_back(data);
  }
};

void run(const Attention& a, AttentionDirection direction, int engine, const Pack& pack,
         Workspace& workspace) {
  const CudnnPlan& plan = solver_for(a, direction).plan(engine);
  WICK_CHECK(plan.descriptor.defined(), "attention: cuDNN has no plan for query ", a.q.shape,
             ", key ", a.k.shape, " in ", a.q.dtype);
  cudnn_execute(a.q.device, plan, pack.ids, pack.pointers, workspace);
}

}  // namespace

bool has_attention(const Attention& a) {
  if (!is_reliable(a)) return false;
  const auto has = [&](AttentionDirection direction) {
    return solver_for(a, direction).plan(kAnyEngine).descriptor.defined();
  };
  return has(AttentionDirection::kForward) && has(AttentionDirection::kBackward);
}

std::vector<std::string> attention_engines(const Attention& a, AttentionDirection direction) {
  return solver_for(a, direction).engine_names();
}

void attention_forward(const Attention& a, int engine, Workspace& workspace) {
  run(a, AttentionDirection::kForward, engine, Pack(a), workspace);
}

void attention_backward(const Attention& a, const AttentionGradients& g, int engine,
                        Workspace& workspace) {
  Pack pack(a);
  pack.add(kDo, g.d_o.data);
  pack.add(kDq, g.dq.data);
  pack.add(kDk, g.dk.data);
  pack.add(kDv, g.dv.data);
  pack.add(kOne, &pack.one);
  const auto floats = [&](int64_t count) {
    return workspace.allocate(static_cast<size_t>(count) * sizeof(float));
  };
  pack.add(kRowSums, floats(a.stats.numel()));
  if (!deterministic()) pack.add(kDqSums, floats(a.q.numel()));
  run(a, AttentionDirection::kBackward, engine, pack, workspace);
}

}  // namespace wick::cuda
