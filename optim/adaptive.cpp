#include "wick/optim/adaptive.h"

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
  const RmspropArgs args{{o.lr, o.weight_decay, o.maximize, o.decoupled_weight_decay},
                         o.alpha,
                         o.eps,
                         o.momentum,
                         o.centered};
  WICK_DISPATCH(tensors[0].param.device,
                rmsprop_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

Adagrad::Adagrad(std::vector<Tensor> params, const AdagradOptions& options)
    : Adagrad(std::vector<ParamGroup<AdagradOptions>>{{std::move(params), options}}) {}

Adagrad::Adagrad(std::vector<ParamGroup<AdagradOptions>> groups)
    : OptimizerOf("adagrad", std::move(groups), {"sum"}) {}

Tensor Adagrad::new_slot(int group, int, const Tensor& param) const {
  return Optimizer::new_slot(group, 0, param).fill_(options(group).initial_accumulator_value);
}

void Adagrad::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const AdagradOptions& o = options(group);
  const AdagradArgs args{
      {o.lr, o.weight_decay, o.maximize, o.decoupled_weight_decay}, o.lr_decay, o.eps};
  WICK_DISPATCH(tensors[0].param.device,
                adagrad_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

Adadelta::Adadelta(std::vector<Tensor> params, const AdadeltaOptions& options)
    : Adadelta(std::vector<ParamGroup<AdadeltaOptions>>{{std::move(params), options}}) {}

Adadelta::Adadelta(std::vector<ParamGroup<AdadeltaOptions>> groups)
    : OptimizerOf("adadelta", std::move(groups), {"square_avg", "acc_delta"}) {}

void Adadelta::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const AdadeltaOptions& o = options(group);
  const AdadeltaArgs args{
      {o.lr, o.weight_decay, o.maximize, o.decoupled_weight_decay}, o.rho, o.eps};
  WICK_DISPATCH(tensors[0].param.device,
                adadelta_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

}  // namespace wick::optim
