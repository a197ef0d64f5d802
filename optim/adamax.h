#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of Adamax, with the defaults of torch.optim.Adamax. Weight decay is added to the
/// gradient; `decoupled_weight_decay` multiplies w by 1 - lr * weight_decay instead. Error for a
/// beta outside [0, 1), or another number that is negative or not finite.
struct AdamaxOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr NumberField<AdamaxOptions> fields[] = {
      number_field<&AdamaxOptions::lr>("lr"),
      number_field<&AdamaxOptions::beta1>("beta1"),
      number_field<&AdamaxOptions::beta2>("beta2"),
      number_field<&AdamaxOptions::eps>("eps"),
      number_field<&AdamaxOptions::weight_decay>("weight_decay"),
      number_field<&AdamaxOptions::decoupled_weight_decay>("decoupled_weight_decay"),
      number_field<&AdamaxOptions::maximize>("maximize"),
  };
};

/// Adamax (Kingma & Ba 2014, arXiv 1412.6980, section 7.1): Adam with the decaying maximum of
/// |gradient| + eps in place of the root of the second moment.
class Adamax final : public OptimizerOf<AdamaxOptions> {
 public:
  explicit Adamax(std::vector<Tensor> params, const AdamaxOptions& options = {});
  explicit Adamax(std::vector<ParamGroup<AdamaxOptions>> groups);

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
