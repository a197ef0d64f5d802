#include "wick/optim/adagrad.h"

#include "wick/kernels/optim/adagrad.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

Adagrad::Adagrad(std::vector<Tensor> params, const AdagradOptions& options)
    : Adagrad(std::vector<ParamGroup<AdagradOptions>>{{std::move(params), options}}) {}

Adagrad::Adagrad(std::vector<ParamGroup<AdagradOptions>> groups)
    : OptimizerOf("adagrad", std::move(groups), {"sum"}) {}

Tensor Adagrad::new_slot(int group, int, const Tensor& param) const {
  return Optimizer::new_slot(group, 0, param).fill_(options(group).initial_accumulator_value);
}

void Adagrad::check_gradient(int group, const Tensor& gradient) const {
  if (!gradient.is_sparse() || options(group).weight_decay == 0) return;
  refuse_sparse(gradient, "weight decay changes every row in each step: expected weight_decay 0");
}

void Adagrad::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const AdagradOptions& o = options(group);
  run_rule(tensors, rules::adagrad::Args{common_args(o), o.lr_decay, o.eps}, step);
}

[[maybe_unused]] static const bool adagrad_offered =
    offer<Adagrad>("adagrad", 0.01, 0, {.decoupled_weight_decay = true});

}  // namespace wick::optim
