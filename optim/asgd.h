#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of ASGD, with the defaults of torch.optim.ASGD. The class says what `lambd`,
/// `alpha` and `t0`, a number of steps, do. Weight decay is added to the gradient;
/// `decoupled_weight_decay` multiplies w by 1 - lr * weight_decay instead. Error for a number that
/// is negative or not finite.
struct ASGDOptions {
  double lr = 1e-2;
  double lambd = 1e-4;
  double alpha = 0.75;
  double t0 = 1e6;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr NumberField<ASGDOptions> fields[] = {
      number_field<&ASGDOptions::lr>("lr"),
      number_field<&ASGDOptions::lambd>("lambd"),
      number_field<&ASGDOptions::alpha>("alpha"),
      number_field<&ASGDOptions::t0>("t0"),
      number_field<&ASGDOptions::weight_decay>("weight_decay"),
      number_field<&ASGDOptions::decoupled_weight_decay>("decoupled_weight_decay"),
      number_field<&ASGDOptions::maximize>("maximize"),
  };
};

/// Averaged SGD (Polyak & Juditsky 1992): w = (1 - lambd * eta) * w - eta * d, where eta starts as
/// lr and is lr / (1 + lambd * lr * t)^alpha after step t. The state "ax" is the average of w over
/// the steps after t0, before them w itself.
class ASGD final : public OptimizerOf<ASGDOptions> {
 public:
  explicit ASGD(std::vector<Tensor> params, const ASGDOptions& options = {});
  explicit ASGD(std::vector<ParamGroup<ASGDOptions>> groups);

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
