#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of RMSprop, with the defaults of torch.optim.RMSprop. `alpha` is the decay of
/// the mean square, and of the mean if `centered`. Weight decay is added to the gradient;
/// `decoupled_weight_decay` multiplies w by 1 - lr * weight_decay instead. Error for a number that
/// is negative or not finite.
struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr NumberField<RMSpropOptions> fields[] = {
      number_field<&RMSpropOptions::lr>("lr"),
      number_field<&RMSpropOptions::alpha>("alpha"),
      number_field<&RMSpropOptions::eps>("eps"),
      number_field<&RMSpropOptions::weight_decay>("weight_decay"),
      number_field<&RMSpropOptions::momentum>("momentum"),
      number_field<&RMSpropOptions::centered>("centered"),
      number_field<&RMSpropOptions::decoupled_weight_decay>("decoupled_weight_decay"),
      number_field<&RMSpropOptions::maximize>("maximize"),
  };
};

/// RMSprop (Hinton 2012; centered: Graves 2013, arXiv 1308.0850), as PyTorch defines it: the
/// gradient over the root of its mean square (centered: of its variance), eps added to the root.
class RMSprop final : public OptimizerOf<RMSpropOptions> {
 public:
  explicit RMSprop(std::vector<Tensor> params, const RMSpropOptions& options = {});
  explicit RMSprop(std::vector<ParamGroup<RMSpropOptions>> groups);

 protected:
  bool needs_slot(int group, int slot) const override;
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
