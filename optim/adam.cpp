#include "wick/optim/adam.h"

#include "wick/kernels/optim/adam.h"
#include "wick/optim/detail/offer.h"
#include "wick/optim/detail/run_rule.h"

namespace wick::optim {

template <bool kDecoupled>
AdamOf<kDecoupled>::AdamOf(std::vector<Tensor> params, const Options& options)
    : AdamOf(std::vector<ParamGroup<Options>>{{std::move(params), options}}) {}

template <bool kDecoupled>
AdamOf<kDecoupled>::AdamOf(std::vector<ParamGroup<Options>> groups)
    : OptimizerOf<Options>(kDecoupled ? "adamw" : "adam", std::move(groups),
                           {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}) {}

template <bool kDecoupled>
void AdamOf<kDecoupled>::update(int group, const std::vector<OptimTensor>& tensors,
                                const OptimStep& step) {
  const Options& o = this->options(group);
  rules::adam::Args args{common_args(o), o.beta1, o.beta2, o.eps, o.amsgrad};
  args.decoupled = kDecoupled;
  run_rule(tensors, args, step);
}

template class AdamOf<false>;
template class AdamOf<true>;

[[maybe_unused]] static const bool adam_offered = offer<Adam>("adam", 0, 0);
[[maybe_unused]] static const bool adamw_offered = offer<AdamW>("adamw", 0, 0);

}  // namespace wick::optim
