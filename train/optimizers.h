#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/options.h"
#include "wick/optim/registry.h"

namespace wick::train {

/// What rates and weight decays may be.
inline constexpr double kLeastLr = 1e-12, kMostLr = 1e6, kMostWeightDecay = 1e6;

/// An optimizer by name.
struct OptimizerOptions {
  std::string name = "adamw";               // one of optim::optimizer_names()
  std::optional<double> lr = {};            // none: the optimizer's default
  std::optional<double> weight_decay = {};  // the same
  std::optional<double> momentum = {};      // the same
  std::vector<double> betas = {};           // beta1 and beta2; empty: the optimizer's defaults
};
OptionFields fields(OptimizerOptions& options);

/// The optimizer that the options name. InvalidOption for a value that the optimizer does not have,
/// and where a rate is open and the optimizer has no default.
std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerOptions& options,
                                                 const std::vector<Tensor>& params);

/// Whether an element's update by the optimizer depends on no other element.
bool is_elementwise(const std::string& optimizer);

}  // namespace wick::train
