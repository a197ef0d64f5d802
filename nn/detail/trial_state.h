#pragma once

#include <utility>
#include <vector>

#include "wick/core/autograd.h"
#include "wick/core/random.h"
#include "wick/nn/module.h"

namespace wick::nn {

/// What trial passes change, put back at the end: a model's buffers and the random states.
/// Gradients are cleared.
class TrialState {
 public:
  explicit TrialState(Module& model) : model_(model), random_(random_states()) {
    for (const auto& [name, buffer] : model.named_buffers()) {
      buffers_.emplace_back(buffer, buffer.clone());
    }
  }
  ~TrialState() {
    const NoGrad no_grad;
    try {
      for (const auto& [buffer, copy] : buffers_) buffer.copy_(copy);
    } catch (const Error&) {  // of a broken device, as its next use will tell
    }
    model_.zero_grad();
    set_random_states(random_);
  }
  TrialState(const TrialState&) = delete;
  TrialState& operator=(const TrialState&) = delete;

 private:
  Module& model_;
  std::vector<RandomKey> random_;
  std::vector<std::pair<Tensor, Tensor>> buffers_;
};

}  // namespace wick::nn
