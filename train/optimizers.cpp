#include "wick/train/optimizers.h"

#include "wick/core/base/detail/registry.h"

namespace wick::train {

namespace {

using Params = std::vector<Tensor>;

template <class O>
std::unique_ptr<optim::Optimizer> plain(const Params& params, double lr, double decay) {
  typename O::Options options;
  options.lr = lr;
  options.weight_decay = decay;
  if constexpr (requires { options.decoupled_weight_decay; }) {
    // As AdamW's, where the textbook adds it to the gradient that the step then divides by.
    options.decoupled_weight_decay =
        !std::is_same_v<O, optim::SGD> && !std::is_same_v<O, optim::NovoGrad>;
  }
  if constexpr (std::is_same_v<O, optim::SGD>) options.momentum = 0.9;
  return std::make_unique<O>(params, options);
}

template <class O>
std::unique_ptr<optim::Optimizer> adapting(const Params& params, double lr, double decay) {
  using Group = optim::ParamGroup<typename O::Options>;
  Group all, rest;
  all.options.lr = rest.options.lr = lr;
  all.options.weight_decay = decay;
  rest.options.weight_decay = 0;
  if constexpr (std::is_same_v<O, optim::LARS>) rest.options.trust_coefficient = 0;
  for (const Tensor& param : params) (param.rank() > 1 ? all : rest).params.push_back(param);
  std::vector<Group> groups;
  for (Group* group : {&all, &rest}) {
    if (!group->params.empty()) groups.push_back(std::move(*group));
  }
  return std::make_unique<O>(std::move(groups));
}

Registry<OptimizerEntry>& registry() {
  static Registry<OptimizerEntry> all("optimizer",
                                      {{"adamw", 0, 0, plain<optim::AdamW>},
                                       {"adam", 0, 0, plain<optim::Adam>},
                                       {"sgd", 0.1, 5e-4, plain<optim::SGD>},
                                       {"adamax", 0, 0, plain<optim::Adamax>},
                                       {"nadam", 0, 0, plain<optim::NAdam>},
                                       {"radam", 0, 0, plain<optim::RAdam>},
                                       {"rmsprop", 0, 0, plain<optim::RMSprop>},
                                       {"adagrad", 0.01, 0, plain<optim::Adagrad>},
                                       {"adadelta", 1, 0, plain<optim::Adadelta>},
                                       {"asgd", 0.1, 5e-4, plain<optim::ASGD>},
                                       {"lars", 1, 5e-4, adapting<optim::LARS>},
                                       {"lamb", 0.01, 0, adapting<optim::LAMB>},
                                       {"novograd", 0.01, 1e-3, plain<optim::NovoGrad>}});
  return all;
}

}  // namespace

void register_optimizer(OptimizerEntry entry) { registry().add(std::move(entry)); }
std::vector<std::string> optimizer_names() { return registry().names(); }
const OptimizerEntry& find_optimizer(const std::string& name) { return registry().find(name); }

OptionFields fields(OptimizerOptions& options) {
  return {
      OptionField("optimizer", &options.name, "").one_of(optimizer_names()).lasting(),
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
  const OptimizerEntry& entry = find_optimizer(options.name);
  const double lr = options.lr.value_or(entry.lr);
  require(lr > 0, "lr", "optimizer ", options.name, " has no default: expected a rate");
  return entry.make(params, lr, options.weight_decay.value_or(entry.weight_decay));
}

bool is_elementwise(const std::string& optimizer) {
  return find_optimizer(optimizer).make({zeros({1}).set_requires_grad()}, 1, 0)->is_elementwise();
}

}  // namespace wick::train
