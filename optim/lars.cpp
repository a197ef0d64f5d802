#include "wick/optim/lars.h"

#include "wick/kernels/optim/lars.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

LARS::LARS(std::vector<Tensor> params, const LARSOptions& options)
    : LARS(std::vector<ParamGroup<LARSOptions>>{{std::move(params), options}}) {}

LARS::LARS(std::vector<ParamGroup<LARSOptions>> groups)
    : OptimizerOf("lars", std::move(groups), {"momentum_buffer"}) {}

void LARS::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const LARSOptions& o = options(group);
  run_rule(tensors, rules::lars::Args{common_args(o), o.momentum, o.trust_coefficient, o.eps},
           step);
}

[[maybe_unused]] static const bool lars_offered =
    offer<LARS>("lars", 1, 5e-4, {}, LARSOptions{.trust_coefficient = 0});

}  // namespace wick::optim
