#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of NovoGrad; the class says what the switches do. Error for a beta outside
/// [0, 1), or another number that is negative or not finite.
struct NovoGradOptions {
  double lr = 1e-3;
  double beta1 = 0.95;
  double beta2 = 0.98;
  double eps = 1e-8;
  double weight_decay = 0;
  bool bias_correction = false;
  bool grad_averaging = false;
  bool init_zero = false;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr NumberField<NovoGradOptions> fields[] = {
      number_field<&NovoGradOptions::lr>("lr"),
      number_field<&NovoGradOptions::beta1>("beta1"),
      number_field<&NovoGradOptions::beta2>("beta2"),
      number_field<&NovoGradOptions::eps>("eps"),
      number_field<&NovoGradOptions::weight_decay>("weight_decay"),
      number_field<&NovoGradOptions::bias_correction>("bias_correction"),
      number_field<&NovoGradOptions::grad_averaging>("grad_averaging"),
      number_field<&NovoGradOptions::init_zero>("init_zero"),
      number_field<&NovoGradOptions::decoupled_weight_decay>("decoupled_weight_decay"),
      number_field<&NovoGradOptions::maximize>("maximize"),
  };
};

/// NovoGrad (Ginsburg et al. 2019, arXiv 1905.11286), by default as in the paper, with a second
/// moment per parameter:
/// - v = |grad|^2 at first, then beta2 * v + (1 - beta2) * |grad|^2;
/// - m = beta1 * m + (grad / (sqrt(v) + eps) + weight_decay * w);
/// - w -= lr * m.
///
/// The switches are those of NVIDIA Apex: `bias_correction` corrects both moments as Adam does,
/// `grad_averaging` multiplies what joins m by 1 - beta1, and `init_zero` starts v at 0.
/// `decoupled_weight_decay` takes decay out of m, and w *= 1 - lr * weight_decay comes first.
///
/// That is not Apex' reg_inside_moment = false, which averages gradients as they are and divides m
/// by sqrt(v) + eps where it moves w. Here m is of normalised gradients in either case, as in the
/// paper.
class NovoGrad final : public OptimizerOf<NovoGradOptions> {
 public:
  explicit NovoGrad(std::vector<Tensor> params, const NovoGradOptions& options = {});
  explicit NovoGrad(std::vector<ParamGroup<NovoGradOptions>> groups);
  bool is_elementwise() const override { return false; }

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
