#pragma once

#include <string>
#include <vector>

#include "wick/core/tensor.h"
#include "wick/nn/module.h"

// What lint_training sees in the graph that a forward pass of `x` leaves.
namespace wick::nn {

/// A layer's bias, and where the layer is.
struct LayerBias {
  std::string path;
  Tensor* bias = nullptr;
};

/// Biases of layers whose result goes to batch normalisation.
std::vector<LayerBias> biases_before_norm(Module& model, const Tensor& x);

/// Where the convolutions are whose result reaches another layer with weights through some
/// operation, but through none that normalises.
std::vector<std::string> convolutions_without_norm(Module& model, const Tensor& x);

}  // namespace wick::nn
