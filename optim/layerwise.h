#pragma once

#include "wick/optim/optimizer.h"

// Optimizers for large batches, which scale the update of each parameter by norms.

namespace wick::optim {

struct LARSOptions {
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 1e-3;
  double eps = 1e-8;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields = std::tuple{
      field("lr", &LARSOptions::lr),
      field("momentum", &LARSOptions::momentum),
      field("weight_decay", &LARSOptions::weight_decay),
      field("trust_coefficient", &LARSOptions::trust_coefficient),
      field("eps", &LARSOptions::eps),
      field("decoupled_weight_decay", &LARSOptions::decoupled_weight_decay),
      field("maximize", &LARSOptions::maximize),
  };
};

/// Layer-wise adaptive rate scaling (You, Gitman, Ginsburg 2017, arXiv 1708.03888), the paper's
/// variant, with the rate inside the momentum: with local = trust_coefficient * |w| /
/// (|grad| + weight_decay * |w| + eps), buffer = momentum * buffer + lr * local *
/// (grad + weight_decay * w), w -= buffer. local is 1 where a norm is 0, and in groups whose
/// trust_coefficient is 0: biases' and normalisations', as a rule.
class LARS final : public OptimizerOf<LARSOptions> {
 public:
  explicit LARS(std::vector<Tensor> params, const LARSOptions& options = {});
  explicit LARS(std::vector<ParamGroup<LARSOptions>> groups);
  bool is_elementwise() const override { return false; }

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

struct LAMBOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.01;
  double max_grad_norm = 1;
  bool bias_correction = true;
  bool grad_averaging = true;
  bool use_nvlamb = false;
  bool maximize = false;
  static constexpr auto fields = std::tuple{
      field("lr", &LAMBOptions::lr),
      field("beta1", &LAMBOptions::beta1),
      field("beta2", &LAMBOptions::beta2),
      field("eps", &LAMBOptions::eps),
      field("weight_decay", &LAMBOptions::weight_decay),
      field("max_grad_norm", &LAMBOptions::max_grad_norm),
      field("bias_correction", &LAMBOptions::bias_correction),
      field("grad_averaging", &LAMBOptions::grad_averaging),
      field("use_nvlamb", &LAMBOptions::use_nvlamb),
      field("maximize", &LAMBOptions::maximize),
  };
};

/// LAMB (You et al. 2019, arXiv 1904.00962), the variant of NVIDIA Apex' FusedLAMB: the gradients
/// of all groups are first clipped together to the norm max_grad_norm (0: not at all); then with
/// m = beta1 * m + (1 - beta1, or 1 without grad_averaging) * grad, v as in Adam, both corrected
/// for bias unless told otherwise, and u = m / (sqrt(v) + eps) + weight_decay * w, w moves by
/// -lr * |w| / |u| * u. The ratio is 1 where a norm is 0 and, unless use_nvlamb, in groups without
/// weight decay. Decay is decoupled from the moments by definition.
class LAMB final : public OptimizerOf<LAMBOptions> {
 public:
  explicit LAMB(std::vector<Tensor> params, const LAMBOptions& options = {});
  explicit LAMB(std::vector<ParamGroup<LAMBOptions>> groups);
  bool is_elementwise() const override { return false; }

 protected:
  std::optional<double> own_max_norm(int group) const override;
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

struct NovoGradOptions {
  double lr = 1e-3;
  double beta1 = 0.95;
  double beta2 = 0.98;
  double eps = 1e-8;
  double weight_decay = 0;
  bool bias_correction = false;
  bool grad_averaging = false;
  bool init_zero = false;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields = std::tuple{
      field("lr", &NovoGradOptions::lr),
      field("beta1", &NovoGradOptions::beta1),
      field("beta2", &NovoGradOptions::beta2),
      field("eps", &NovoGradOptions::eps),
      field("weight_decay", &NovoGradOptions::weight_decay),
      field("bias_correction", &NovoGradOptions::bias_correction),
      field("grad_averaging", &NovoGradOptions::grad_averaging),
      field("init_zero", &NovoGradOptions::init_zero),
      field("decoupled_weight_decay", &NovoGradOptions::decoupled_weight_decay),
      field("maximize", &NovoGradOptions::maximize),
  };
};

/// NovoGrad (Ginsburg et al. 2019, arXiv 1905.11286), by default as in the paper, with a second
/// moment per parameter: v = |grad|^2 at first, then beta2 * v + (1 - beta2) * |grad|^2;
/// m = beta1 * m + (grad / (sqrt(v) + eps) + weight_decay * w); w -= lr * m. The switches are those
/// of NVIDIA Apex: `bias_correction` corrects both moments as Adam does, `grad_averaging`
/// multiplies what joins m by 1 - beta1, and `init_zero` starts v at 0. `decoupled_weight_decay`
/// takes decay out of m, and w *= 1 - lr * weight_decay comes first. That is not Apex'
/// reg_inside_moment = false, which averages gradients as they are and divides m by sqrt(v) + eps
/// where it moves w: here m is of normalised gradients in either case, as in the paper.
class NovoGrad final : public OptimizerOf<NovoGradOptions> {
 public:
  explicit NovoGrad(std::vector<Tensor> params, const NovoGradOptions& options = {});
  explicit NovoGrad(std::vector<ParamGroup<NovoGradOptions>> groups);
  bool is_elementwise() const override { return false; }

 protected:
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;
};

}  // namespace wick::optim
