#include "wick/optim/adam_variants.h"

namespace wick::optim {

Adamax::Adamax(std::vector<Tensor> params, const AdamaxOptions& options)
    : Adamax(std::vector<ParamGroup<AdamaxOptions>>{{std::move(params), options}}) {}

Adamax::Adamax(std::vector<ParamGroup<AdamaxOptions>> groups)
    : OptimizerOf("adamax", std::move(groups), {"exp_avg", "exp_inf"}) {}

void Adamax::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const AdamaxOptions& o = options(group);
  const AdamArgs args{
      {o.lr, o.weight_decay, o.maximize, o.decoupled_weight_decay}, o.beta1, o.beta2, o.eps};
  WICK_DISPATCH(tensors[0].param.device,
                adamax_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

NAdam::NAdam(std::vector<Tensor> params, const NAdamOptions& options)
    : NAdam(std::vector<ParamGroup<NAdamOptions>>{{std::move(params), options}}) {}

NAdam::NAdam(std::vector<ParamGroup<NAdamOptions>> groups)
    : OptimizerOf("nadam", std::move(groups), {"exp_avg", "exp_avg_sq"}, "mu_product") {}

void NAdam::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const NAdamOptions& o = options(group);
  const NadamArgs args{
      {{o.lr, o.weight_decay, o.maximize, o.decoupled_weight_decay}, o.beta1, o.beta2, o.eps},
      o.momentum_decay};
  WICK_DISPATCH(tensors[0].param.device,
                nadam_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

RAdam::RAdam(std::vector<Tensor> params, const RAdamOptions& options)
    : RAdam(std::vector<ParamGroup<RAdamOptions>>{{std::move(params), options}}) {}

RAdam::RAdam(std::vector<ParamGroup<RAdamOptions>> groups)
    : OptimizerOf("radam", std::move(groups), {"exp_avg", "exp_avg_sq"}) {}

void RAdam::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const RAdamOptions& o = options(group);
  const AdamArgs args{
      {o.lr, o.weight_decay, o.maximize, o.decoupled_weight_decay}, o.beta1, o.beta2, o.eps};
  WICK_DISPATCH(tensors[0].param.device,
                radam_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

}  // namespace wick::optim
