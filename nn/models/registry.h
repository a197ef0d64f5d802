#pragma once

#include <memory>
#include <string>
#include <vector>

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
  std::shared_ptr<Module> (*make)(const ImageShape& image, int64_t classes);
};

/// All of them: mlp lenet resnet20 resnet18 resnet34 resnet50 vit.
const std::vector<ModelEntry>& models();

/// The model of that name; an unknown one is an error that lists the names.
const ModelEntry& find_model(const std::string& name);

}  // namespace wick::nn
