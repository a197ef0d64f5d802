#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/options.h"
#include "wick/optim/optim.h"

namespace wick::train {

/// An optimizer by name, as in `wick train --optimizer NAME`.
struct OptimizerEntry {
  std::string name;
  double lr = 0, weight_decay = 0;  // defaults; 0: those that suit the model
  std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>& params, double lr,
                                                  double weight_decay)>
      make;
};

/// Offers an optimizer of a program's own. Error if the name is taken.
void register_optimizer(OptimizerEntry entry);

/// adamw adam sgd adamax nadam radam rmsprop adagrad adadelta asgd lars lamb novograd, and those of
/// the program's own.
std::vector<std::string> optimizer_names();

/// Error for an unknown name, which lists the names. LARS and LAMB take biases and all else of one
/// axis in a group that they do not adapt.
const OptimizerEntry& find_optimizer(const std::string& name);

/// What rates and weight decays may be.
inline constexpr double kLeastLr = 1e-12, kMostLr = 1e6, kMostWeightDecay = 1e6;

/// An optimizer by name.
struct OptimizerOptions {
  std::string name = "adamw";               // one of optimizer_names()
  std::optional<double> lr = {};            // none: the optimizer's default
  std::optional<double> weight_decay = {};  // the same
};
OptionFields fields(OptimizerOptions& options);

/// The optimizer that the options name. InvalidOption where a value is open and the optimizer has
/// no default of its own.
std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerOptions& options,
                                                 const std::vector<Tensor>& params);

/// Whether an element's update by the optimizer depends on no other element.
bool is_elementwise(const std::string& optimizer);

}  // namespace wick::train
