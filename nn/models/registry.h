#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wick/core/options.h"
#include "wick/nn/models/resnet.h"
#include "wick/nn/models/simple.h"

namespace wick::nn {

/// A model that programs offer by name, with what it trains well with: AdamW under a one-cycle
/// schedule that peaks at `lr`.
struct ModelEntry {
  std::string name;
  std::string summary;
  double lr;
  double weight_decay;
  int64_t batch_size;
  /// Makes the model for samples of a shape (of images: channels, height, width) and a number of
  /// classes.
  std::function<std::shared_ptr<Module>(const Shape& sample, int64_t classes)> make;
};

/// Offers a model of a program's own by name, as in `wick train --model NAME`. Error if the name is
/// taken.
void register_model(ModelEntry entry);

/// mlp lenet resnet20 resnet18 resnet34 resnet50 vit, and those of the program's own.
std::vector<std::string> model_names();

/// The model of that name; an unknown one is an error that lists the names.
const ModelEntry& find_model(const std::string& name);

/// A model by name.
struct ModelOptions {
  std::string name = "resnet20";  // one of model_names()
};
OptionFields fields(ModelOptions& options);

}  // namespace wick::nn
