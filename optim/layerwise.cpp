#include "wick/optim/layerwise.h"

namespace wick::optim {

LARS::LARS(std::vector<Tensor> params, const LARSOptions& options)
    : LARS(std::vector<ParamGroup<LARSOptions>>{{std::move(params), options}}) {}

LARS::LARS(std::vector<ParamGroup<LARSOptions>> groups)
    : OptimizerOf("lars", std::move(groups), {"momentum_buffer"}) {}

void LARS::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const LARSOptions& o = options(group);
  const LarsArgs args{{o.lr, o.weight_decay, o.maximize, o.decoupled_weight_decay},
                      o.momentum,
                      o.trust_coefficient,
                      o.eps};
  WICK_DISPATCH(tensors[0].param.device,
                lars_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

LAMB::LAMB(std::vector<Tensor> params, const LAMBOptions& options)
    : LAMB(std::vector<ParamGroup<LAMBOptions>>{{std::move(params), options}}) {}

LAMB::LAMB(std::vector<ParamGroup<LAMBOptions>> groups)
    : OptimizerOf("lamb", std::move(groups), {"exp_avg", "exp_avg_sq"}) {}

std::optional<double> LAMB::own_max_norm(int group) const {
  const double most = options(group).max_grad_norm;
  return most > 0 ? std::optional(most) : std::nullopt;
}

void LAMB::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const LAMBOptions& o = options(group);
  const LambArgs args{{{o.lr, o.weight_decay, o.maximize}, o.beta1, o.beta2, o.eps},
                      o.bias_correction,
                      o.grad_averaging,
                      o.use_nvlamb};
  WICK_DISPATCH(tensors[0].param.device,
                lamb_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

NovoGrad::NovoGrad(std::vector<Tensor> params, const NovoGradOptions& options)
    : NovoGrad(std::vector<ParamGroup<NovoGradOptions>>{{std::move(params), options}}) {}

NovoGrad::NovoGrad(std::vector<ParamGroup<NovoGradOptions>> groups)
    : OptimizerOf("novograd", std::move(groups), {"exp_avg"}, "grad_norm_sq") {}

void NovoGrad::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const NovoGradOptions& o = options(group);
  const NovogradArgs args{
      {{o.lr, o.weight_decay, o.maximize, o.decoupled_weight_decay}, o.beta1, o.beta2, o.eps},
      o.bias_correction,
      o.grad_averaging,
      o.init_zero};
  WICK_DISPATCH(tensors[0].param.device,
                novograd_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

}  // namespace wick::optim
