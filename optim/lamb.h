#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of LAMB; the formulas at the class use their names. Error for a beta outside
/// [0, 1), or another number that is negative or not finite.
struct LAMBOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.01;
  double max_grad_norm = 1;
  bool bias_correction = true;
  bool grad_averaging = true;
  bool use_nvlamb = false;
  bool maximize = false;
  static constexpr NumberField<LAMBOptions> fields[] = {
      number_field<&LAMBOptions::lr>("lr"),
      number_field<&LAMBOptions::beta1>("beta1"),
      number_field<&LAMBOptions::beta2>("beta2"),
      number_field<&LAMBOptions::eps>("eps"),
      number_field<&LAMBOptions::weight_decay>("weight_decay"),
      number_field<&LAMBOptions::max_grad_norm>("max_grad_norm"),
      number_field<&LAMBOptions::bias_correction>("bias_correction"),
      number_field<&LAMBOptions::grad_averaging>("grad_averaging"),
      number_field<&LAMBOptions::use_nvlamb>("use_nvlamb"),
      number_field<&LAMBOptions::maximize>("maximize"),
  };
};

/// LAMB (You et al. 2019, arXiv 1904.00962), the variant of NVIDIA Apex' FusedLAMB. The gradients
/// of all groups are first clipped together to the norm max_grad_norm (0: not at all).
///
/// Then m = beta1 * m + (1 - beta1, or 1 without grad_averaging) * grad, and v as in Adam, both
/// corrected for bias unless told otherwise. With u = m / (sqrt(v) + eps) + weight_decay * w, w
/// moves by -lr * |w| / |u| * u. The ratio is 1 where a norm is 0 and, unless use_nvlamb, in groups
/// without weight decay. Decay is decoupled from the moments by definition.
class LAMB final : public OptimizerOf<LAMBOptions> {
 public:
  explicit LAMB(std::vector<Tensor> params, const LAMBOptions& options = {});
  explicit LAMB(std::vector<ParamGroup<LAMBOptions>> groups);
  bool is_elementwise() const override { return false; }

 protected:
  std::optional<double> own_max_norm(int group) const override;
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
