#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of NAdam, with the defaults of torch.optim.NAdam. Weight decay is added to the
/// gradient; `decoupled_weight_decay` multiplies w by 1 - lr * weight_decay instead. Error for a
/// beta outside [0, 1), or another number that is negative or not finite.
struct NAdamOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr NumberField<NAdamOptions> fields[] = {
      number_field<&NAdamOptions::lr>("lr"),
      number_field<&NAdamOptions::beta1>("beta1"),
      number_field<&NAdamOptions::beta2>("beta2"),
      number_field<&NAdamOptions::eps>("eps"),
      number_field<&NAdamOptions::weight_decay>("weight_decay"),
      number_field<&NAdamOptions::momentum_decay>("momentum_decay"),
      number_field<&NAdamOptions::decoupled_weight_decay>("decoupled_weight_decay"),
      number_field<&NAdamOptions::maximize>("maximize"),
  };
};

/// Adam with Nesterov momentum (Dozat 2016). With mu_t = beta1 * (1 - 0.96^(t * momentum_decay) /
/// 2) and P = mu_1 ... mu_t, w moves by -lr * u / (sqrt(v) + eps), v with its bias corrected.
///
/// u = (1 - mu_t) / (1 - P) * d + mu_(t+1) / (1 - P * mu_(t+1)) * m.
class NAdam final : public OptimizerOf<NAdamOptions> {
 public:
  explicit NAdam(std::vector<Tensor> params, const NAdamOptions& options = {});
  explicit NAdam(std::vector<ParamGroup<NAdamOptions>> groups);

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
