#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of LARS; the formulas at the class use their names. `decoupled_weight_decay`
/// takes decay out of them, and w is multiplied by 1 - lr * weight_decay first. Error for a number
/// that is negative or not finite.
struct LARSOptions {
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 1e-3;
  double eps = 1e-8;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr NumberField<LARSOptions> fields[] = {
      number_field<&LARSOptions::lr>("lr"),
      number_field<&LARSOptions::momentum>("momentum"),
      number_field<&LARSOptions::weight_decay>("weight_decay"),
      number_field<&LARSOptions::trust_coefficient>("trust_coefficient"),
      number_field<&LARSOptions::eps>("eps"),
      number_field<&LARSOptions::decoupled_weight_decay>("decoupled_weight_decay"),
      number_field<&LARSOptions::maximize>("maximize"),
  };
};

/// Layer-wise adaptive rate scaling (You, Gitman, Ginsburg 2017, arXiv 1708.03888), the paper's
/// variant, with the rate inside the momentum: local = trust_coefficient * |w| / (|grad| +
/// weight_decay * |w| + eps);
///
/// buffer = momentum * buffer + lr * local * (grad + weight_decay * w); w -= buffer.
///
/// local is 1 where a norm is 0, and in groups whose trust_coefficient is 0: biases' and
/// normalisations', as a rule.
class LARS final : public OptimizerOf<LARSOptions> {
 public:
  explicit LARS(std::vector<Tensor> params, const LARSOptions& options = {});
  explicit LARS(std::vector<ParamGroup<LARSOptions>> groups);
  bool is_elementwise() const override { return false; }

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
