#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

struct NAdamOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields = std::tuple{
      field("lr", &NAdamOptions::lr),
      field("beta1", &NAdamOptions::beta1),
      field("beta2", &NAdamOptions::beta2),
      field("eps", &NAdamOptions::eps),
      field("weight_decay", &NAdamOptions::weight_decay),
      field("momentum_decay", &NAdamOptions::momentum_decay),
      field("decoupled_weight_decay", &NAdamOptions::decoupled_weight_decay),
      field("maximize", &NAdamOptions::maximize),
  };
};

/// Adam with Nesterov momentum (Dozat 2016): with mu_t = beta1 * (1 - 0.96^(t * momentum_decay) /
/// 2) and P = mu_1 ... mu_t, w moves by -lr times
/// ((1 - mu_t) / (1 - P) * d + mu_(t+1) / (1 - P * mu_(t+1)) * m) / (sqrt(v) + eps), v with its
/// bias corrected.
class NAdam final : public OptimizerOf<NAdamOptions> {
 public:
  explicit NAdam(std::vector<Tensor> params, const NAdamOptions& options = {});
  explicit NAdam(std::vector<ParamGroup<NAdamOptions>> groups);

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
