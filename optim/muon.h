#pragma once

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// What Muon multiplies the orthogonal update of a matrix of m rows and n columns by.
enum class AdjustLr {
  kOriginal,           // sqrt(max(1, m / n)), as Jordan does
  kMatchRmsAdamw,      // 0.2 * sqrt(max(m, n)): as large as AdamW's updates, whose rates then fit
  kSpectralUnclamped,  // sqrt(m / n), as Bernstein does
};

/// Hyperparameters of Muon, and of the AdamW that updates groups without `use_muon`. `ns_a`, `ns_b`
/// and `ns_c` are the coefficients of a Newton-Schulz iteration. Error for a beta outside [0, 1),
/// or for another number that is not finite. Only the coefficients may be negative.
struct MuonOptions {
  double lr = 1e-3;
  double momentum = 0.95;
  double weight_decay = 0.1;
  bool nesterov = true;
  /// ns_coefficients of PyTorch.
  double ns_a = 3.4445;
  double ns_b = -4.7750;
  double ns_c = 2.0315;
  double eps = 1e-7;  // the least norm that a direction is divided by
  int ns_steps = 5;
  AdjustLr adjust_lr_fn = AdjustLr::kOriginal;
  /// False: the group is AdamW's, with its lr and weight_decay.
  bool use_muon = true;
  double adamw_lr = 1e-3;  // of the group that Muon(params, options) makes for AdamW, and its decay
  double adamw_weight_decay = 1e-2;
  double adamw_beta1 = 0.9;
  double adamw_beta2 = 0.999;
  double adamw_eps = 1e-8;
  static constexpr NumberField<MuonOptions> fields[] = {
      number_field<&MuonOptions::lr>("lr"),
      number_field<&MuonOptions::momentum>("momentum"),
      number_field<&MuonOptions::weight_decay>("weight_decay"),
      number_field<&MuonOptions::nesterov>("nesterov"),
      number_field<&MuonOptions::ns_a>("ns_a"),
      number_field<&MuonOptions::ns_b>("ns_b"),
      number_field<&MuonOptions::ns_c>("ns_c"),
      number_field<&MuonOptions::eps>("eps"),
      number_field<&MuonOptions::ns_steps>("ns_steps"),
      number_field<&MuonOptions::adjust_lr_fn>("adjust_lr_fn"),
      number_field<&MuonOptions::use_muon>("use_muon"),
      number_field<&MuonOptions::adamw_lr>("adamw_lr"),
      number_field<&MuonOptions::adamw_weight_decay>("adamw_weight_decay"),
      number_field<&MuonOptions::adamw_beta1>("adamw_beta1"),
      number_field<&MuonOptions::adamw_beta2>("adamw_beta2"),
      number_field<&MuonOptions::adamw_eps>("adamw_eps"),
  };
  /// Error for 100 steps of Newton-Schulz or more.
  void check() const;
  /// Error for a coefficient that is not finite, and for a beta of AdamW outside [0, 1). False for
  /// what has no range of its own.
  static bool check_value(std::string_view name, double value);
};

/// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/): buffer = momentum *
/// buffer + (1 - momentum) * grad, and with nesterov once more so of buffer and grad.
///
/// Then w = (1 - lr * weight_decay) * w - lr * ratio * orthogonal(...). ns_steps iterations of
/// Newton-Schulz bring all singular values near 1: in bfloat16 on GPUs, in float32 on the CPU, in
/// float64 for parameters of that. Defaults are PyTorch's.
///
/// For parameters of two axes or more, whose first axis is the rows and all others the columns.
/// Parameters of fewer axes, and better the embeddings and the output layer too, are in groups
/// without `use_muon`, which AdamW updates.
class Muon final : public OptimizerOf<MuonOptions> {
 public:
  /// All that have fewer than two axes are in a group for AdamW, after that of the others.
  explicit Muon(const std::vector<Tensor>& params, const MuonOptions& options = {});
  /// Error for a parameter of fewer axes in a group with `use_muon`.
  explicit Muon(std::vector<ParamGroup<MuonOptions>> groups);
  bool is_elementwise() const override { return false; }
  void add_param_group(std::vector<Tensor> params, const Hyperparameters& values = {}) override;

 protected:
  bool needs_slot(int group, int slot) const override {
    return (slot == kBuffer) == options(group).use_muon;
  }
  void prepare_update(int group, const std::vector<OptimTensor>& tensors,
                      const OptimStep& step) override;
  void update(int group, const std::vector<OptimTensor>& tensors, const OptimStep& step) override;

 private:
  static constexpr int kBuffer = 2;  // the slots before it are AdamW's
  /// Of the tensors of an update() to come, by the memory of the first.
  std::map<const void*, std::vector<Tensor>> orthogonal_;
};

}  // namespace wick::optim
