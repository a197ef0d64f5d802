#include "wick/optim/rmsprop.h"

#include "wick/kernels/optim/rmsprop.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

RMSprop::RMSprop(std::vector<Tensor> params, const RMSpropOptions& options)
    : RMSprop(std::vector<ParamGroup<RMSpropOptions>>{{std::move(params), options}}) {}

RMSprop::RMSprop(std::vector<ParamGroup<RMSpropOptions>> groups)
    : OptimizerOf("rmsprop", std::move(groups), {"square_avg", "grad_avg", "momentum_buffer"}) {}

bool RMSprop::needs_slot(int group, int slot) const {
  const RMSpropOptions& o = options(group);
  return slot == 0 || (slot == 1 ? o.centered : o.momentum != 0);
}

void RMSprop::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const RMSpropOptions& o = options(group);
  run_rule(tensors, rules::rmsprop::Args{common_args(o), o.alpha, o.eps, o.momentum, o.centered},
           step);
}

[[maybe_unused]] static const bool rmsprop_offered =
    offer<RMSprop>("rmsprop", 0, 0, {.decoupled_weight_decay = true});

}  // namespace wick::optim
