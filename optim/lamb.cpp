#include "wick/optim/lamb.h"

#include "wick/kernels/optim/lamb.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

LAMB::LAMB(std::vector<Tensor> params, const LAMBOptions& options)
    : LAMB(std::vector<ParamGroup<LAMBOptions>>{{std::move(params), options}}) {}

LAMB::LAMB(std::vector<ParamGroup<LAMBOptions>> groups)
    : OptimizerOf("lamb", std::move(groups), {"exp_avg", "exp_avg_sq"}) {}

std::optional<double> LAMB::own_max_norm(int group) const {
  const double most = options(group).max_grad_norm;
  return most > 0 ? std::optional(most) : std::nullopt;
}

void LAMB::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const LAMBOptions& o = options(group);
  run_rule(tensors,
           rules::lamb::Args{common_args(o), o.beta1, o.beta2, o.eps, o.bias_correction,
                             o.grad_averaging, o.use_nvlamb},
           step);
}

[[maybe_unused]] static const bool lamb_offered = offer<LAMB>("lamb", 0.01, 0, {}, LAMBOptions());

}  // namespace wick::optim
