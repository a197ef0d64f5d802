#include "wick/optim/sgd.h"

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

void SGD::update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) {
  const SGDOptions& o = options(group);
  const SgdArgs args{{o.lr, o.weight_decay, o.maximize, o.decoupled_weight_decay},
                     o.momentum,
                     o.dampening,
                     o.nesterov};
  WICK_DISPATCH(tensors[0].param.device,
                sgd_step(tensors.data(), static_cast<int64_t>(tensors.size()), args, step));
}

}  // namespace wick::optim
