#include "wick/optim/nadam.h"

#include "wick/kernels/optim/nadam.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

NAdam::NAdam(std::vector<Tensor> params, const NAdamOptions& options)
    : NAdam(std::vector<ParamGroup<NAdamOptions>>{{std::move(params), options}}) {}

NAdam::NAdam(std::vector<ParamGroup<NAdamOptions>> groups)
    : OptimizerOf("nadam", std::move(groups), {"exp_avg", "exp_avg_sq"}, "mu_product") {}

void NAdam::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const NAdamOptions& o = options(group);
  run_rule(tensors, rules::nadam::Args{common_args(o), o.beta1, o.beta2, o.eps, o.momentum_decay},
           step);
}

[[maybe_unused]] static const bool nadam_offered =
    offer<NAdam>("nadam", 0, 0, {.decoupled_weight_decay = true});

}  // namespace wick::optim
