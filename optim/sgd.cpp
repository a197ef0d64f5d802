#include "wick/optim/sgd.h"

namespace wick::optim {

SGD::SGD(std::vector<Tensor> params, const SGDOptions& options)
    : SGD(std::vector<ParamGroup<SGDOptions>>{{std::move(params), options}}) {}

SGD::SGD(std::vector<ParamGroup<SGDOptions>> groups)
    : OptimizerOf("sgd", std::move(groups), {"momentum_buffer"}) {
  for (int g = 0; g < num_groups(); ++g) {
    const SGDOptions& o = options(g);
    WICK_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
               "sgd: nesterov needs a momentum and no dampening: got momentum ", o.momentum,
               ", dampening ", o.dampening);
  }
}

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
