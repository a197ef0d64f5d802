#include "wick/train/optimizers.h"

namespace wick::train {

OptionFields fields(OptimizerOptions& options) {
  return {
      OptionField("optimizer", &options.name, "").one_of(optim::optimizer_names()).lasting(),
      OptionField("lr", &options.lr, "peak learning rate").between(kLeastLr, kMostLr).lasting(),
      OptionField("weight_decay", &options.weight_decay,
                  "weight decay: times the rate off the weights, as in AdamW; of adam, sgd, lars "
                  "and novograd part of the gradient")
          .between(0, kMostWeightDecay)
          .lasting(),
  };
}

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerOptions& options,
                                                 const std::vector<Tensor>& params) {
  const optim::OptimizerEntry& entry = optim::find_optimizer(options.name);
  const double lr = options.lr.value_or(entry.lr);
  require(lr > 0, "lr", "optimizer ", options.name, " has no default: expected a rate");
  return entry.make(params, lr, options.weight_decay.value_or(entry.weight_decay));
}

bool is_elementwise(const std::string& optimizer) {
  return optim::find_optimizer(optimizer)
      .make({zeros({1}).set_requires_grad()}, 1, 0)
      ->is_elementwise();
}

}  // namespace wick::train
