#pragma once

#include <utility>
#include <vector>

#include "wick/core/ops/detail/elementwise_op.h"

namespace wick {

/// The gradients of the outputs of `composed(inputs)`, each weighted by its `dy` (undefined where
/// unused), for the inputs that `saved` says want one: as ops that can be differentiated again, on
/// 16-bit inputs in float32. For the backward of fused ops under create_graph.
template <class Composed>
Gradients composed_gradients(const Saved& saved, std::vector<Tensor> inputs,
                             const std::vector<Tensor>& dys, const Composed& composed) {
  std::vector<Tensor> wanted;
  std::vector<size_t> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !saved.needs(static_cast<int>(i))) continue;
    // An alias, so that what one input owes to another does not count here.
    inputs[i] = inputs[i].expand(inputs[i].shape());
    wanted.push_back(inputs[i]);
    places.push_back(i);
  }
  for (Tensor& input : inputs) input = wide(input);
  const std::vector<Tensor> all = composed(inputs);
  std::vector<Tensor> used, incoming;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!dys[i].defined() || !all[i].requires_grad()) continue;
    used.push_back(all[i]);
    incoming.push_back(dys[i].to(all[i].dtype()));
  }
  const std::vector<Tensor> found = grad(used, wanted, incoming, true, true, true);
  Gradients gradients(inputs.size());
  for (size_t i = 0; i < places.size(); ++i) gradients[places[i]] = found[i];
  return gradients;
}
/// The same of an op with one output.
template <class Composed>
Gradients composed_gradients(const Saved& saved, std::vector<Tensor> inputs, const Tensor& dy,
                             const Composed& composed) {
  return composed_gradients(
      saved, std::move(inputs), std::vector<Tensor>{dy},
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {composed(in)}; });
}

/// The gradients of an op whose result has no elements: zeros, for the inputs that want one.
inline Gradients gradients_of_nothing(const Saved& saved) {
  Gradients gradients(static_cast<size_t>(saved.num_inputs()));
  for (int i = 0; i < saved.num_inputs(); ++i) {
    const TensorMeta& in = saved.input(i);
    if (saved.needs(i)) gradients[static_cast<size_t>(i)] = zeros(in.shape, in.dtype, in.device);
  }
  return gradients;
}

}  // namespace wick
