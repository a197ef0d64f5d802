#include "wick/optim/adam.h"

namespace wick::optim {

template <bool kDecoupled>
AdamOf<kDecoupled>::AdamOf(std::vector<Tensor> params, const Options& options)
    : AdamOf(std::vector<ParamGroup<Options>>{{std::move(params), options}}) {}

template <bool kDecoupled>
AdamOf<kDecoupled>::AdamOf(std::vector<ParamGroup<Options>> groups)
    : OptimizerOf<Options>(kDecoupled ? "adamw" : "adam", std::move(groups),
                           {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}) {
  const char* name = kDecoupled ? "adamw" : "adam";
  for (int g = 0; g < this->num_groups(); ++g) {
    const Options& o = this->options(g);
    this->check_option(name, "lr", o.lr, o.lr >= 0, "0 or more");
    this->check_option(name, "beta1", o.beta1, o.beta1 >= 0 && o.beta1 < 1, "a value in [0, 1)");
    this->check_option(name, "beta2", o.beta2, o.beta2 >= 0 && o.beta2 < 1, "a value in [0, 1)");
    this->check_option(name, "eps", o.eps, o.eps >= 0, "0 or more");
    this->check_option(name, "weight_decay", o.weight_decay, o.weight_decay >= 0, "0 or more");
  }
}

template <bool kDecoupled>
void AdamOf<kDecoupled>::update(int group, const std::vector<OptimTensor>& tensors) {
  const Options& o = this->options(group);
  const AdamArgs args{o.lr,           o.beta1,    o.beta2,   o.eps,
                      o.weight_decay, kDecoupled, o.amsgrad, o.maximize};
  WICK_DISPATCH(tensors[0].param.device,
                adam_step(tensors.data(), static_cast<int64_t>(tensors.size()), args));
}

template class AdamOf<false>;
template class AdamOf<true>;

}  // namespace wick::optim
