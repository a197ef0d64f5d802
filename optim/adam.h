#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of Adam and AdamW, with PyTorch's defaults. `eps` is added to the root of the
/// second moment after the correction of its bias. `amsgrad` divides by the largest second moment
/// so far (Reddi et al. 2018, arXiv 1904.09237). Error for a beta outside [0, 1), or another number
/// that is negative or not finite.
template <bool kDecoupled>
struct AdamOptionsOf {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = kDecoupled ? 1e-2 : 0;
  bool amsgrad = false;
  bool maximize = false;
  static constexpr NumberField<AdamOptionsOf> fields[] = {
      number_field<&AdamOptionsOf::lr>("lr"),
      number_field<&AdamOptionsOf::beta1>("beta1"),
      number_field<&AdamOptionsOf::beta2>("beta2"),
      number_field<&AdamOptionsOf::eps>("eps"),
      number_field<&AdamOptionsOf::weight_decay>("weight_decay"),
      number_field<&AdamOptionsOf::amsgrad>("amsgrad"),
      number_field<&AdamOptionsOf::maximize>("maximize"),
  };
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;

/// The class of both Adam and AdamW; `kDecoupled` is true for AdamW.
template <bool kDecoupled>
class AdamOf final : public OptimizerOf<AdamOptionsOf<kDecoupled>> {
 public:
  using Options = AdamOptionsOf<kDecoupled>;
  explicit AdamOf(std::vector<Tensor> params, const Options& options = {});
  explicit AdamOf(std::vector<ParamGroup<Options>> groups);

 protected:
  bool needs_slot(int group, int slot) const override {
    return slot < 2 || this->options(group).amsgrad;
  }
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

/// Adam (Kingma & Ba 2014, arXiv 1412.6980); weight decay is added to the gradient.
using Adam = AdamOf<false>;
/// Adam with decoupled weight decay (Loshchilov & Hutter 2017, arXiv 1711.05101):
/// w *= 1 - lr * weight_decay before each update. Its default weight decay is 0.01.
using AdamW = AdamOf<true>;

}  // namespace wick::optim
