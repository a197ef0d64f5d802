#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of RAdam, with the defaults of torch.optim.RAdam. Weight decay is added to the
/// gradient; `decoupled_weight_decay` multiplies w by 1 - lr * weight_decay instead. Error for a
/// beta outside [0, 1), or another number that is negative or not finite.
struct RAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr NumberField<RAdamOptions> fields[] = {
      number_field<&RAdamOptions::lr>("lr"),
      number_field<&RAdamOptions::beta1>("beta1"),
      number_field<&RAdamOptions::beta2>("beta2"),
      number_field<&RAdamOptions::eps>("eps"),
      number_field<&RAdamOptions::weight_decay>("weight_decay"),
      number_field<&RAdamOptions::decoupled_weight_decay>("decoupled_weight_decay"),
      number_field<&RAdamOptions::maximize>("maximize"),
  };
};

/// Rectified Adam (Liu et al. 2019, arXiv 1908.03265): without the second moment for as long as its
/// variance is unknown (length of the average 5 or less), then with a warm-up factor.
class RAdam final : public OptimizerOf<RAdamOptions> {
 public:
  explicit RAdam(std::vector<Tensor> params, const RAdamOptions& options = {});
  explicit RAdam(std::vector<ParamGroup<RAdamOptions>> groups);

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
