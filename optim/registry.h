#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// An optimizer by name, as in `wick train --optimizer NAME`.
struct OptimizerEntry {
  std::string name;
  double lr = 0, weight_decay = 0;  // defaults; 0: those that suit the model
  std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>& params, double lr,
                                           double weight_decay)>
      make;
  /// With the default options of its class; of the library's optimizers.
  std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>& params)> make_default = {};
};

/// Offers an optimizer of a program's own. Error if the name is taken.
void register_optimizer(OptimizerEntry entry);

/// Those of the library and of the program's own, in the order of the alphabet.
std::vector<std::string> optimizer_names();

/// Error for an unknown name, which lists the names.
const OptimizerEntry& find_optimizer(const std::string& name);

}  // namespace wick::optim
