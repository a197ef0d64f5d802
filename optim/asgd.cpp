#include "wick/optim/asgd.h"

namespace wick::optim {

ASGD::ASGD(std::vector<Tensor> params, const ASGDOptions& options)
    : ASGD(std::vector<ParamGroup<ASGDOptions>>{{std::move(params), options}}) {}

ASGD::ASGD(std::vector<ParamGroup<ASGDOptions>> groups)
    : OptimizerOf("asgd", std::move(groups), {"ax"}, "eta") {}

void ASGD::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const ASGDOptions& o = options(group);
  const AsgdArgs args{
      {o.lr, o.weight_decay, o.maximize, o.decoupled_weight_decay}, o.lambd, o.alpha, o.t0};
  WICK_DISPATCH(tensors[0].param.device,
                asgd_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

}  // namespace wick::optim
