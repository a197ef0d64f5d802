#include "wick/optim/adam.h"

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
  const AdamArgs args{
      {o.lr, o.weight_decay, o.maximize, kDecoupled}, o.beta1, o.beta2, o.eps, o.amsgrad};
  WICK_DISPATCH(tensors[0].param.device,
                adam_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

template class AdamOf<false>;
template class AdamOf<true>;

}  // namespace wick::optim
