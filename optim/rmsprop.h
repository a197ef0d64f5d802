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

}  // namespace wick::optim
