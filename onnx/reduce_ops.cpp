#include "wick/core/core.h"
#include "wick/onnx/detail/call.h"

// Reductions over axes, and ops along one axis.
namespace wick::onnx::detail {

namespace {

using Results = std::vector<Tensor>;
using Reduction = Tensor (*)(const Tensor&, const Shape& axes, bool keepdim);

Tensor sum_of(const Tensor& x, const Shape& axes, bool keepdim) {
  return x.sum(axes, keepdim).to(x.dtype());
}
Tensor mean_of(const Tensor& x, const Shape& axes, bool keepdim) { return x.mean(axes, keepdim); }
Tensor max_of(const Tensor& x, const Shape& axes, bool keepdim) { return x.amax(axes, keepdim); }
Tensor min_of(const Tensor& x, const Shape& axes, bool keepdim) { return x.amin(axes, keepdim); }
Tensor product_of(const Tensor& x, const Shape& axes, bool keepdim) {
  return x.prod(axes, keepdim).to(x.dtype());
}
Tensor norm_of(const Tensor& x, const Shape& axes, bool keepdim) {
  return x.norm(2, axes, keepdim);
}
Tensor squares_of(const Tensor& x, const Shape& axes, bool keepdim) {
  return x.square().sum(axes, keepdim);
}
Tensor log_sum_exp_of(const Tensor& x, const Shape& axes, bool keepdim) {
  return x.logsumexp(axes, keepdim);
}

template <Reduction f>
Results reduce(Call& call) {
  const std::vector<int64_t> axes = call.list("axes", 1);
  if (axes.empty() && call.integer("noop_with_empty_axes", 0) != 0) return one(call[0]);
  return one(f(call[0], Shape(axes), call.integer("keepdims", 1) != 0));
}

template <bool kLargest>
Results arg_reduce(Call& call) {
  call.expect("select_last_index", 0);
  const int64_t axis = call.integer("axis", 0);
  const bool keepdim = call.integer("keepdims", 1) != 0;
  return one(kLargest ? call[0].argmax(axis, keepdim) : call[0].argmin(axis, keepdim));
}

Results softmax_op(Call& call) { return one(softmax(call[0], call.integer("axis", -1))); }
Results log_softmax_op(Call& call) { return one(log_softmax(call[0], call.integer("axis", -1))); }

Results cumsum_op(Call& call) {
  call.expect("exclusive", 0);
  call.expect("reverse", 0);
  const std::vector<int64_t> axis = call.integers_of(1);
  WICK_CHECK(axis.size() == 1, "the axis is not one number: got ", axis.size(), " numbers");
  return one(call[0].cumsum(axis[0]).to(call[0].dtype()));
}

constexpr OpEntry kReduceOps[] = {
    {"ReduceSum", 1, 2, reduce<sum_of>},
    {"ReduceMean", 1, 2, reduce<mean_of>},
    {"ReduceMax", 1, 2, reduce<max_of>},
    {"ReduceMin", 1, 2, reduce<min_of>},
    {"ReduceProd", 1, 2, reduce<product_of>},
    {"ReduceL2", 1, 2, reduce<norm_of>},
    {"ReduceSumSquare", 1, 2, reduce<squares_of>},
    {"ReduceLogSumExp", 1, 2, reduce<log_sum_exp_of>},
    {"ArgMax", 1, 1, arg_reduce<true>},
    {"ArgMin", 1, 1, arg_reduce<false>},
    {"Softmax", 1, 1, softmax_op},
    {"LogSoftmax", 1, 1, log_softmax_op},
    {"CumSum", 2, 2, cumsum_op},
};

}  // namespace

std::span<const OpEntry> reduce_ops() { return kReduceOps; }

}  // namespace wick::onnx::detail
