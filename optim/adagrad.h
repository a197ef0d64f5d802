#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of Adagrad, with the defaults of torch.optim.Adagrad. The sum of squares starts
/// at `initial_accumulator_value`. `eps` is added to its root. Weight decay is added to the
/// gradient; `decoupled_weight_decay` multiplies w by 1 - lr * weight_decay instead. Error for a
/// number that is negative or not finite.
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr NumberField<AdagradOptions> fields[] = {
      number_field<&AdagradOptions::lr>("lr"),
      number_field<&AdagradOptions::lr_decay>("lr_decay"),
      number_field<&AdagradOptions::weight_decay>("weight_decay"),
      number_field<&AdagradOptions::initial_accumulator_value>("initial_accumulator_value"),
      number_field<&AdagradOptions::eps>("eps"),
      number_field<&AdagradOptions::decoupled_weight_decay>("decoupled_weight_decay"),
      number_field<&AdagradOptions::maximize>("maximize"),
  };
};

/// Adagrad (Duchi, Hazan, Singer 2011): the gradient over the root of the sum of its squares, at
/// the rate lr / (1 + (step - 1) * lr_decay). Of a sparse gradient only the rows it has are
/// updated; error for one with weight decay, which changes all.
class Adagrad final : public OptimizerOf<AdagradOptions> {
 public:
  explicit Adagrad(std::vector<Tensor> params, const AdagradOptions& options = {});
  explicit Adagrad(std::vector<ParamGroup<AdagradOptions>> groups);

 protected:
  Tensor new_slot(int group, int slot, const Tensor& param) const override;
  void check_gradient(int group, const Tensor& gradient) const override;
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
