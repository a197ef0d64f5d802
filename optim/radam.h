#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

struct RAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields = std::tuple{
      field("lr", &RAdamOptions::lr),
      field("beta1", &RAdamOptions::beta1),
      field("beta2", &RAdamOptions::beta2),
      field("eps", &RAdamOptions::eps),
      field("weight_decay", &RAdamOptions::weight_decay),
      field("decoupled_weight_decay", &RAdamOptions::decoupled_weight_decay),
      field("maximize", &RAdamOptions::maximize),
  };
};

/// Rectified Adam (Liu et al. 2019, arXiv 1908.03265): without the second moment for as long as its
/// variance is unknown (length of the average 5 or less), then with a warm-up factor.
class RAdam final : public OptimizerOf<RAdamOptions> {
 public:
  explicit RAdam(std::vector<Tensor> params, const RAdamOptions& options = {});
  explicit RAdam(std::vector<ParamGroup<RAdamOptions>> groups);

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
