#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of Adadelta, with the defaults of torch.optim.Adadelta. `rho` is the decay of
/// both mean squares. `eps` is added to each before its root. Weight decay is added to the
/// gradient; `decoupled_weight_decay` multiplies w by 1 - lr * weight_decay instead. Error for a
/// number that is negative or not finite.
struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr NumberField<AdadeltaOptions> fields[] = {
      number_field<&AdadeltaOptions::lr>("lr"),
      number_field<&AdadeltaOptions::rho>("rho"),
      number_field<&AdadeltaOptions::eps>("eps"),
      number_field<&AdadeltaOptions::weight_decay>("weight_decay"),
      number_field<&AdadeltaOptions::decoupled_weight_decay>("decoupled_weight_decay"),
      number_field<&AdadeltaOptions::maximize>("maximize"),
  };
  /// Error for a rho outside [0, 1]; false for what has no range of its own.
  static bool check_value(std::string_view name, double value);
};

/// Adadelta (Zeiler 2012, arXiv 1212.5701): the gradient, scaled by the root of the mean square of
/// past updates over that of past gradients.
class Adadelta final : public OptimizerOf<AdadeltaOptions> {
 public:
  explicit Adadelta(std::vector<Tensor> params, const AdadeltaOptions& options = {});
  explicit Adadelta(std::vector<ParamGroup<AdadeltaOptions>> groups);

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
