#include "wick/optim/sgd.h"

#include "wick/kernels/optim/sgd.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

void SGDOptions::check() const {
  WICK_CHECK(!nesterov || (momentum > 0 && dampening == 0),
             "sgd: nesterov needs a momentum and no dampening: got momentum ", momentum,
             ", dampening ", dampening);
}

SGD::SGD(std::vector<Tensor> params, const SGDOptions& options)
    : SGD(std::vector<ParamGroup<SGDOptions>>{{std::move(params), options}}) {}

SGD::SGD(std::vector<ParamGroup<SGDOptions>> groups)
    : OptimizerOf("sgd", std::move(groups), {"momentum_buffer"}, "momentum_steps") {}

void SGD::check_gradient(int group, const Tensor& gradient) const {
  if (!gradient.is_sparse()) return;
  if (options(group).momentum != 0) {
    refuse_sparse(gradient, "momentum moves every row in each step: expected momentum 0");
  }
  if (options(group).weight_decay != 0) {
    refuse_sparse(gradient, "weight decay changes every row in each step: expected weight_decay 0");
  }
}

void SGD::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const SGDOptions& o = options(group);
  run_rule(tensors, rules::sgd::Args{common_args(o), o.momentum, o.dampening, o.nesterov}, step);
}

[[maybe_unused]] static const bool sgd_offered = offer<SGD>("sgd", 0.1, 5e-4, {.momentum = 0.9});

}  // namespace wick::optim
