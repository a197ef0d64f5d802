#include "wick/optim/adamax.h"

#include "wick/kernels/optim/adamax.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

Adamax::Adamax(std::vector<Tensor> params, const AdamaxOptions& options)
    : Adamax(std::vector<ParamGroup<AdamaxOptions>>{{std::move(params), options}}) {}

Adamax::Adamax(std::vector<ParamGroup<AdamaxOptions>> groups)
    : OptimizerOf("adamax", std::move(groups), {"exp_avg", "exp_inf"}) {}

void Adamax::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const AdamaxOptions& o = options(group);
  run_rule(tensors, rules::adamax::Args{common_args(o), o.beta1, o.beta2, o.eps}, step);
}

[[maybe_unused]] static const bool adamax_offered =
    offer<Adamax>("adamax", 0, 0, {.decoupled_weight_decay = true});

}  // namespace wick::optim
