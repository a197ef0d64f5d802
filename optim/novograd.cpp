#include "wick/optim/novograd.h"

#include "wick/kernels/optim/novograd.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

NovoGrad::NovoGrad(std::vector<Tensor> params, const NovoGradOptions& options)
    : NovoGrad(std::vector<ParamGroup<NovoGradOptions>>{{std::move(params), options}}) {}

NovoGrad::NovoGrad(std::vector<ParamGroup<NovoGradOptions>> groups)
    : OptimizerOf("novograd", std::move(groups), {"exp_avg"}, "grad_norm_sq") {}

void NovoGrad::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const NovoGradOptions& o = options(group);
  run_rule(tensors,
           rules::novograd::Args{common_args(o), o.beta1, o.beta2, o.eps, o.bias_correction,
                                 o.grad_averaging, o.init_zero},
           step);
}

[[maybe_unused]] static const bool novograd_offered = offer<NovoGrad>("novograd", 0.01, 1e-3);

}  // namespace wick::optim
