#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields = std::tuple{
      field("lr", &RMSpropOptions::lr),
      field("alpha", &RMSpropOptions::alpha),
      field("eps", &RMSpropOptions::eps),
      field("weight_decay", &RMSpropOptions::weight_decay),
      field("momentum", &RMSpropOptions::momentum),
      field("centered", &RMSpropOptions::centered),
      field("decoupled_weight_decay", &RMSpropOptions::decoupled_weight_decay),
      field("maximize", &RMSpropOptions::maximize),
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

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields = std::tuple{
      field("lr", &AdadeltaOptions::lr),
      field("rho", &AdadeltaOptions::rho),
      field("eps", &AdadeltaOptions::eps),
      field("weight_decay", &AdadeltaOptions::weight_decay),
      field("decoupled_weight_decay", &AdadeltaOptions::decoupled_weight_decay),
      field("maximize", &AdadeltaOptions::maximize),
  };
};

/// Adadelta (Zeiler 2012, arXiv 1212.5701): the gradient, scaled by the root of the mean square of
/// past updates over that of past gradients.
class Adadelta final : public OptimizerOf<AdadeltaOptions> {
 public:
  explicit Adadelta(std::vector<Tensor> params, const AdadeltaOptions& options = {});
  explicit Adadelta(std::vector<ParamGroup<AdadeltaOptions>> groups);

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
