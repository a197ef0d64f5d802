#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// Hyperparameters of SparseAdam, with the defaults of torch.optim.SparseAdam. There is no weight
/// decay. Error for a beta outside [0, 1), or another number that is negative or not finite.
struct SparseAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool maximize = false;
  static constexpr NumberField<SparseAdamOptions> fields[] = {
      number_field<&SparseAdamOptions::lr>("lr"),
      number_field<&SparseAdamOptions::beta1>("beta1"),
      number_field<&SparseAdamOptions::beta2>("beta2"),
      number_field<&SparseAdamOptions::eps>("eps"),
      number_field<&SparseAdamOptions::maximize>("maximize"),
  };
};

/// Adam for sparse gradients, as PyTorch defines it: rows without a gradient stay as they are, and
/// so do their moments. eps is added to the root of the second moment before that is corrected for
/// its start at zero. Error for a dense gradient.
class SparseAdam final : public OptimizerOf<SparseAdamOptions> {
 public:
  explicit SparseAdam(std::vector<Tensor> params, const SparseAdamOptions& options = {});
  explicit SparseAdam(std::vector<ParamGroup<SparseAdamOptions>> groups);

 protected:
  void check_gradient(int group, const Tensor& gradient) const override;
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
