#include "wick/optim/clip.h"

#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"
#include "wick/kernels/clip.h"
#include "wick/optim/detail/gradient_norm.h"

namespace wick::optim {

namespace {

// The norms that are no sums of powers, composed of ops: of order 0, the number of gradients that
// have an element other than 0, and of order -infinity, the smallest absolute value.
Tensor composed_norm(const std::vector<Tensor>& params, double p, Dtype dtype, Device device) {
  Tensor total = full({}, p == 0 ? 0 : HUGE_VAL, dtype, device);
  for (const Tensor& param : params) {
    if (!param.grad().defined() || param.numel() == 0) continue;
    const Tensor grad = param.grad().to_dense();
    total = p == 0 ? total + any(ne(grad, 0)).to(dtype) : minimum(total, min(abs(grad)).to(dtype));
  }
  return total;
}

}  // namespace

Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  if (graph::is_tracing()) {
    const auto again = [=](const std::vector<Tensor>&) {
      return clip_grad_norm_(params, max_norm, norm_type, error_if_nonfinite);
    };
    return graph::host_call("clip_grad_norm_", again, params);
  }
  WICK_CHECK(max_norm >= 0, "clip_grad_norm_: max_norm: got ", max_norm, ", expected 0 or more");
  WICK_CHECK(!std::isnan(norm_type), "clip_grad_norm_: norm_type: got nan, expected a number");
  const NoGrad no_grad;
  const DenseGrads grads("clip_grad_norm_", params);
  if (grads.empty()) return zeros({}, kFloat32, params.empty() ? kCpu : params[0].device());
  const Device device = grads.device();
  Tensor total;
  if (norm_type == 0 || norm_type == -HUGE_VAL) {
    total = composed_norm(params, norm_type, grads.dtype(), device);
  } else {
    total = empty({}, grads.dtype(), device);
    const Tensor partial = empty({grads.chunks(kGradNormChunk)}, kFloat64, device);
    WICK_DISPATCH(device, grad_p_norm(grads.views(), grads.count(), norm_type,
                                      partial.view_for_kernel(), total.view_for_kernel()));
  }
  if (error_if_nonfinite) {
    WICK_CHECK(std::isfinite(total.item()), "clip_grad_norm_: the norm of the gradients is ",
               total.item(), ", which nothing can be scaled by");
  }
  WICK_DISPATCH(device,
                grad_clip_norm(grads.views(), grads.count(), total.view_for_kernel(), max_norm));
  grads.write_back();
  return total;
}

void clip_grad_value_(const std::vector<Tensor>& params, double clip_value) {
  if (graph::is_tracing()) {
    const auto again = [=](const std::vector<Tensor>&) {
      clip_grad_value_(params, clip_value);
      return Tensor();
    };
    graph::host_call("clip_grad_value_", again, params);
    return;
  }
  WICK_CHECK(clip_value >= 0, "clip_grad_value_: clip_value: got ", clip_value,
             ", expected 0 or more");
  const NoGrad no_grad;
  const DenseGrads grads("clip_grad_value_", params);
  if (grads.empty()) return;
  WICK_DISPATCH(grads.device(), grad_clip_value(grads.views(), grads.count(), clip_value));
  grads.write_back();
}

}  // namespace wick::optim
