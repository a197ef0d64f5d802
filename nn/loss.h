#pragma once

#include "wick/core/ops/loss.h"
#include "wick/nn/module.h"

namespace wick::nn {

/// A function of several tensors as a module: `loss(x, target)`. What each computes and takes is
/// told at the function it is named after, in wick/core/ops/. Weights are buffers: they move with
/// the module.
template <class... Inputs>
class FunctionModule : public Module {
 public:
  using Module::forward;
  /// The function's result. Summaries see a call of the module, not of forward.
  Tensor forward(const Inputs&... inputs) { return compute(inputs...); }
  /// Calls forward, seen by summaries.
  Tensor operator()(const Inputs&... inputs) {
    ForwardScope scope(*this);
    return scope.made(forward(inputs...));
  }

 protected:
  /// The function, which a derived class defines; forward calls it.
  virtual Tensor compute(const Inputs&... inputs) = 0;
};

using Loss = FunctionModule<Tensor, Tensor>;

/// cross_entropy
class CrossEntropyLoss : public Loss {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {})
      : weight_(add_buffer("weight", options.weight)), options_(options) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    CrossEntropyOptions options = options_;
    options.weight = weight_;
    return cross_entropy(x, target, options);
  }

 private:
  Buffer weight_;
  CrossEntropyOptions options_;
};

/// Options of NLLLoss.
struct NLLLossOptions {
  Tensor weight = {};           // [C]: how much a class counts; 1 if undefined
  int64_t ignore_index = -100;  // rows with this class index count nothing
  LossReduction reduction = LossReduction::kMean;
};

/// nll_loss
class NLLLoss : public Loss {
 public:
  explicit NLLLoss(const NLLLossOptions& options = {})
      : weight_(add_buffer("weight", options.weight)), options_(options) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return nll_loss(x, target, weight_, options_.ignore_index, options_.reduction);
  }

 private:
  Buffer weight_;
  NLLLossOptions options_;
};

/// mse_loss
class MSELoss : public Loss {
 public:
  explicit MSELoss(LossReduction reduction = LossReduction::kMean) : reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return mse_loss(x, target, reduction_);
  }

 private:
  LossReduction reduction_;
};

/// l1_loss
class L1Loss : public Loss {
 public:
  explicit L1Loss(LossReduction reduction = LossReduction::kMean) : reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return l1_loss(x, target, reduction_);
  }

 private:
  LossReduction reduction_;
};

/// smooth_l1_loss
class SmoothL1Loss : public Loss {
 public:
  explicit SmoothL1Loss(double beta = 1, LossReduction reduction = LossReduction::kMean)
      : beta_(beta), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return smooth_l1_loss(x, target, beta_, reduction_);
  }

 private:
  double beta_;
  LossReduction reduction_;
};

/// huber_loss
class HuberLoss : public Loss {
 public:
  explicit HuberLoss(double delta = 1, LossReduction reduction = LossReduction::kMean)
      : delta_(delta), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return huber_loss(x, target, delta_, reduction_);
  }

 private:
  double delta_;
  LossReduction reduction_;
};

/// binary_cross_entropy
class BCELoss : public Loss {
 public:
  explicit BCELoss(const Tensor& weight = {}, LossReduction reduction = LossReduction::kMean)
      : weight_(add_buffer("weight", weight)), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return binary_cross_entropy(x, target, weight_, reduction_);
  }

 private:
  Buffer weight_;
  LossReduction reduction_;
};

/// binary_cross_entropy_with_logits
class BCEWithLogitsLoss : public Loss {
 public:
  explicit BCEWithLogitsLoss(const Tensor& weight = {}, const Tensor& pos_weight = {},
                             LossReduction reduction = LossReduction::kMean)
      : weight_(add_buffer("weight", weight)),
        pos_weight_(add_buffer("pos_weight", pos_weight)),
        reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return binary_cross_entropy_with_logits(x, target, weight_, pos_weight_, reduction_);
  }

 private:
  Buffer weight_, pos_weight_;
  LossReduction reduction_;
};

/// kl_div
class KLDivLoss : public Loss {
 public:
  explicit KLDivLoss(bool log_target = false, LossReduction reduction = LossReduction::kMean)
      : log_target_(log_target), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return kl_div(x, target, log_target_, reduction_);
  }

 private:
  bool log_target_;
  LossReduction reduction_;
};

/// ctc_loss: `loss(log_probs, targets, input_lengths, target_lengths)`.
class CTCLoss : public Module {
 public:
  explicit CTCLoss(const CtcOptions& options = {}) : options_(options) {}
  using Module::forward;
  /// The lengths: std::vector<int64_t>, or tensors.
  template <class Lengths>
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Lengths& input_lengths,
                 const Lengths& target_lengths) {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, options_);
  }
  template <class Lengths>
  Tensor operator()(const Tensor& log_probs, const Tensor& targets, const Lengths& input_lengths,
                    const Lengths& target_lengths) {
    ForwardScope scope(*this);
    return scope.made(forward(log_probs, targets, input_lengths, target_lengths));
  }

 private:
  CtcOptions options_;
};

}  // namespace wick::nn
