#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

struct ASGDOptions {
  double lr = 1e-2;
  double lambd = 1e-4;
  double alpha = 0.75;
  double t0 = 1e6;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields = std::tuple{
      field("lr", &ASGDOptions::lr),
      field("lambd", &ASGDOptions::lambd),
      field("alpha", &ASGDOptions::alpha),
      field("t0", &ASGDOptions::t0),
      field("weight_decay", &ASGDOptions::weight_decay),
      field("decoupled_weight_decay", &ASGDOptions::decoupled_weight_decay),
      field("maximize", &ASGDOptions::maximize),
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
