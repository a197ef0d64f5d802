#pragma once

#include <functional>
#include <string>
#include <vector>

#include "wick/core/tensor.h"

namespace wick::testing {

using Tensors = std::vector<Tensor>;
using TensorFunction = std::function<Tensors(const Tensors&)>;

/// The step of the central differences, and how far their result may lie from the gradient:
/// |analytic - numeric| <= atol + rtol * |numeric|.
struct GradcheckOptions {
  double eps = 1e-6;
  double atol = 1e-5;
  double rtol = 1e-3;
  /// Inputs with more elements are checked along one random direction instead of every element.
  int64_t full_up_to = 300;
};

/// Compares the gradients of `function` at float64 `inputs` with central differences, weighting its
/// outputs by random gradients. `wants[i]`: whether to differentiate by input i. Also checks that
/// gradients are linear in the incoming ones, the same bits in a second run, the same when other
/// inputs require none, and right when only one of several outputs is used. Returns what is wrong,
/// or nothing.
std::string gradcheck(const TensorFunction& function, const Tensors& inputs,
                      const std::vector<bool>& wants, const GradcheckOptions& options = {});

/// The same for the gradient itself, as a function of the inputs and of the incoming gradients.
std::string gradgradcheck(const TensorFunction& function, const Tensors& inputs,
                          const std::vector<bool>& wants, const GradcheckOptions& options = {});

/// Names of the ops in the graph behind `outputs`.
std::vector<std::string> graph_ops(const Tensors& outputs);

}  // namespace wick::testing
