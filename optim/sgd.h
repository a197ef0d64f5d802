#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of SGD, with the defaults of torch.optim.SGD. `decoupled_weight_decay`
/// multiplies w by 1 - lr * weight_decay instead of adding decay to the gradient. Error for a
/// number that is negative or not finite.
struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr NumberField<SGDOptions> fields[] = {
      number_field<&SGDOptions::lr>("lr"),
      number_field<&SGDOptions::momentum>("momentum"),
      number_field<&SGDOptions::dampening>("dampening"),
      number_field<&SGDOptions::weight_decay>("weight_decay"),
      number_field<&SGDOptions::nesterov>("nesterov"),
      number_field<&SGDOptions::decoupled_weight_decay>("decoupled_weight_decay"),
      number_field<&SGDOptions::maximize>("maximize"),
  };
  /// Error for Nesterov without momentum, or with dampening.
  void check() const;
};

/// Stochastic gradient descent with momentum (Sutskever et al. 2013), as PyTorch defines it: with
/// d = grad + weight_decay * w, buffer = momentum * buffer + (1 - dampening) * d (the first
/// time: d),
/// w -= lr * buffer, or with nesterov w -= lr * (d + momentum * buffer). Of a sparse gradient only
/// the rows it has are updated; error for one with momentum or weight decay, which move all.
class SGD final : public OptimizerOf<SGDOptions> {
 public:
  explicit SGD(std::vector<Tensor> params, const SGDOptions& options = {});
  explicit SGD(std::vector<ParamGroup<SGDOptions>> groups);

 protected:
  std::optional<double> own_number_of(int64_t steps, bool has_slots) const override {
    return has_slots ? static_cast<double>(steps) : 0;
  }
  bool needs_slot(int group, int) const override { return options(group).momentum != 0; }
  void check_gradient(int group, const Tensor& gradient) const override;
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
