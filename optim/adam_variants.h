#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields = std::tuple{
      field("lr", &AdamaxOptions::lr),
      field("beta1", &AdamaxOptions::beta1),
      field("beta2", &AdamaxOptions::beta2),
      field("eps", &AdamaxOptions::eps),
      field("weight_decay", &AdamaxOptions::weight_decay),
      field("decoupled_weight_decay", &AdamaxOptions::decoupled_weight_decay),
      field("maximize", &AdamaxOptions::maximize),
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
