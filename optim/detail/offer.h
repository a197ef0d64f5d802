#pragma once

#include <optional>
#include <utility>

#include "wick/optim/registry.h"

namespace wick::optim {

/// Parameters in groups of `options`, but biases and all else of one axis, where `vectors` are
/// given, in one of those, without weight decay.
template <class Options>
std::vector<ParamGroup<Options>> groups_of(const std::vector<Tensor>& params,
                                           const Options& options,
                                           const std::optional<Options>& vectors) {
  ParamGroup<Options> all{{}, options}, rest{{}, vectors.value_or(options)};
  for (const Tensor& param : params) {
    (vectors && param.rank() <= 1 ? rest : all).params.push_back(param);
  }
  std::vector<ParamGroup<Options>> groups;
  for (ParamGroup<Options>* group : {&all, &rest}) {
    if (!group->params.empty()) groups.push_back(std::move(*group));
  }
  return groups;
}

/// Registers the optimizer O, whose source calls this when it is loaded. `lr` and `weight_decay`
/// are the entry's; `options` and `vectors`, with the rates that are asked for, are what
/// groups_of() takes.
template <class O>
bool offer(const char* name, double lr, double weight_decay,
           const typename O::Options& options = {},
           const std::optional<typename O::Options>& vectors = {}) {
  using Params = std::vector<Tensor>;
  const auto make = [options, vectors](const Params& params, double rate, double decay) {
    auto all = options;
    auto rest = vectors;
    all.lr = rate;
    all.weight_decay = decay;
    if (rest) {
      rest->lr = rate;
      rest->weight_decay = 0;
    }
    return std::make_unique<O>(groups_of(params, all, rest));
  };
  register_optimizer({name, lr, weight_decay, make,
                      [](const Params& params) { return std::make_unique<O>(params); }});
  return true;
}

}  // namespace wick::optim
