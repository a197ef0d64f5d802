#include "wick/train/optimizers.h"

namespace wick::train {

namespace {

// The values for an optimizer's hyperparameters that the options name.
optim::Optimizer::Hyperparameters hyperparameters(const OptimizerOptions& options) {
  optim::Optimizer::Hyperparameters values;
  if (options.momentum) values.emplace_back("momentum", *options.momentum);
  if (options.betas.empty()) return values;
  const bool is_pair = options.betas.size() == 2;
  require(is_pair, "betas", "got ", options.betas.size(), " numbers, expected two, as 0.9,0.999");
  for (const double beta : options.betas) {
    require(beta >= 0 && beta < 1, "betas", "got ", beta, ", expected 0 or more, below 1");
  }
  values.emplace_back("beta1", options.betas[0]);
  values.emplace_back("beta2", options.betas[1]);
  return values;
}

}  // namespace

OptionFields fields(OptimizerOptions& options) {
  return {
      OptionField("optimizer", &options.name, "update rule")
          .basic()
          .one_registered(optim::optimizer_names())
          .lasting(),
      OptionField("lr", &options.lr, "peak learning rate")
          .basic()
          .between(kLeastLr, kMostLr)
          .lasting(),
      OptionField("weight_decay", &options.weight_decay,
                  "weight decay: times the rate off the weights, as in AdamW; of adam, sgd, lars "
                  "and novograd part of the gradient")
          .between(0, kMostWeightDecay)
          .lasting(),
      OptionField("momentum", &options.momentum,
                  "momentum of the optimizers that have one, such as sgd (its default here: 0.9)")
          .between(0, 0.9999999)
          .lasting(),
      OptionField("betas", &options.betas,
                  "beta1 and beta2 of the optimizers that have them, as 0.9,0.999")
          .lasting(),
  };
}

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerOptions& options,
                                                 const std::vector<Tensor>& params) {
  const optim::OptimizerEntry& entry = optim::find_optimizer(options.name);
  const double lr = options.lr.value_or(entry.lr);
  require(lr > 0, "lr", "optimizer ", options.name, " has no default: expected a rate");
  auto optimizer = entry.make(params, lr, options.weight_decay.value_or(entry.weight_decay));
  for (const auto& [name, value] : hyperparameters(options)) {
    require(optimizer->hyperparameter(0, name).has_value(),
            name == "momentum" ? "momentum" : "betas", "not with optimizer ", options.name,
            ", which has no ", name);
    for (int g = 0; g < optimizer->num_groups(); ++g) optimizer->set_hyperparameter(g, name, value);
  }
  return optimizer;
}

bool is_elementwise(const std::string& optimizer) {
  return optim::find_optimizer(optimizer)
      .make({zeros({1}).set_requires_grad()}, 1, 0)
      ->is_elementwise();
}

}  // namespace wick::train
