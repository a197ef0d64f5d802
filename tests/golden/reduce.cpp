#include "wick/core/ops/reduce.h"

#include "wick/core/ops/sort.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {
namespace {

using Reduce = Tensor (*)(const Tensor& x, const Shape& axes, bool keepdim);

OpFunction reduction(Reduce reduce) {
  return [reduce](const Inputs& in, Args& a) {
    return Tensors{reduce(a.in_dtype(in[0]), a.shape("dim", Shape{}), a.flag("keepdim", false))};
  };
}

Tensors product(const Inputs& in, Args& a) {
  const Tensor x = a.in_dtype(in[0]);
  const Shape axes = a.shape("dim", Shape{});
  const bool keepdim = a.flag("keepdim", false);
  return {a.has("dtype") ? prod(x, axes, keepdim, x.dtype()) : prod(x, axes, keepdim)};
}

int64_t correction(Args& a) {
  const bool unbiased = a.flag("unbiased", true);
  return a.integer("correction", unbiased ? 1 : 0);
}

Tensors variance(const Inputs& in, Args& a) {
  return {var(in[0], a.shape("dim", Shape{}), correction(a), a.flag("keepdim", false))};
}

Tensors standard_deviation(const Inputs& in, Args& a) {
  return {stddev(in[0], a.shape("dim", Shape{}), correction(a), a.flag("keepdim", false))};
}

Tensors vector_norm(const Inputs& in, Args& a) {
  const char* name = a.has("p") ? "p" : "ord";
  const bool frobenius = a.is_text(name) && a.text(name) == "fro";
  const double order = frobenius ? 2 : a.number(name, 2.0);
  return {norm(a.in_dtype(in[0]), order, a.shape("dim", Shape{}), a.flag("keepdim", false))};
}

using ArgReduce = Tensor (*)(const Tensor& x, std::optional<int64_t> axis, bool keepdim);

OpFunction position(ArgReduce reduce) {
  return [reduce](const Inputs& in, Args& a) {
    std::optional<int64_t> axis;
    if (a.has("dim")) axis = a.integer("dim");
    return Tensors{reduce(in[0], axis, a.flag("keepdim", false))};
  };
}

Tensors top(const Inputs& in, Args& a) {
  WICK_CHECK(a.flag("sorted", true), "argument 'sorted': without order there is no reference");
  const Sorted best = topk(in[0], a.integer("k"), a.integer("dim", -1), a.flag("largest", true));
  return {best.values, best.indices};
}

const Family reduce_family("reduce",
                           op_runner({
                               {"sum", reduction(sum)},
                               {"mean", reduction(mean)},
                               {"prod", product},
                               {"amax", reduction(amax)},
                               {"amin", reduction(amin)},
                               {"logsumexp", reduction(logsumexp)},
                               {"any", reduction(any)},
                               {"all", reduction(all)},
                               {"var", variance},
                               {"std", standard_deviation},
                               {"norm", vector_norm},
                               {"argmax", position(argmax)},
                               {"argmin", position(argmin)},
                               {"cumsum",
                                [](const Inputs& in, Args& a) {
                                  return Tensors{cumsum(a.in_dtype(in[0]), a.integer("dim"))};
                                }},
                               {"topk", top},
                           }));

}  // namespace
}  // namespace wick::golden
