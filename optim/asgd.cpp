#include "wick/optim/asgd.h"

#include "wick/kernels/optim/asgd.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

ASGD::ASGD(std::vector<Tensor> params, const ASGDOptions& options)
    : ASGD(std::vector<ParamGroup<ASGDOptions>>{{std::move(params), options}}) {}

ASGD::ASGD(std::vector<ParamGroup<ASGDOptions>> groups)
    : OptimizerOf("asgd", std::move(groups), {"ax"}, "eta") {}

void ASGD::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const ASGDOptions& o = options(group);
  run_rule(tensors, rules::asgd::Args{common_args(o), o.lambd, o.alpha, o.t0}, step);
}

[[maybe_unused]] static const bool asgd_offered =
    offer<ASGD>("asgd", 0.1, 5e-4, {.decoupled_weight_decay = true});

}  // namespace wick::optim
