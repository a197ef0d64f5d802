#include "wick/optim/radam.h"

#include "wick/kernels/optim/radam.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

RAdam::RAdam(std::vector<Tensor> params, const RAdamOptions& options)
    : RAdam(std::vector<ParamGroup<RAdamOptions>>{{std::move(params), options}}) {}

RAdam::RAdam(std::vector<ParamGroup<RAdamOptions>> groups)
    : OptimizerOf("radam", std::move(groups), {"exp_avg", "exp_avg_sq"}) {}

void RAdam::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const RAdamOptions& o = options(group);
  run_rule(tensors, rules::radam::Args{common_args(o), o.beta1, o.beta2, o.eps}, step);
}

[[maybe_unused]] static const bool radam_offered =
    offer<RAdam>("radam", 0, 0, {.decoupled_weight_decay = true});

}  // namespace wick::optim
