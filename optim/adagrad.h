#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields = std::tuple{
      field("lr", &AdagradOptions::lr),
      field("lr_decay", &AdagradOptions::lr_decay),
      field("weight_decay", &AdagradOptions::weight_decay),
      field("initial_accumulator_value", &AdagradOptions::initial_accumulator_value),
      field("eps", &AdagradOptions::eps),
      field("decoupled_weight_decay", &AdagradOptions::decoupled_weight_decay),
      field("maximize", &AdagradOptions::maximize),
  };
};

/// Adagrad (Duchi, Hazan, Singer 2011): the gradient over the root of the sum of its squares, at
/// the rate lr / (1 + (step - 1) * lr_decay).
class Adagrad final : public OptimizerOf<AdagradOptions> {
 public:
  explicit Adagrad(std::vector<Tensor> params, const AdagradOptions& options = {});
  explicit Adagrad(std::vector<ParamGroup<AdagradOptions>> groups);

 protected:
  Tensor new_slot(int group, int slot, const Tensor& param) const override;
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
