#pragma once

#include "wick/core/ops/margin_loss.h"
#include "wick/core/ops/reduce.h"
#include "wick/nn/loss.h"

// Losses of margins and distances as modules. What each computes and takes is told at the function
// it is named after, in wick/core/ops/margin_loss.h.

namespace wick::nn {

/// pairwise_distance
class PairwiseDistance : public FunctionModule<Tensor, Tensor> {
 public:
  explicit PairwiseDistance(double p = 2, double eps = 1e-6, bool keepdim = false)
      : p_(p), eps_(eps), keepdim_(keepdim) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& y) override {
    return pairwise_distance(x, y, p_, eps_, keepdim_);
  }

 private:
  double p_, eps_;
  bool keepdim_;
};

/// cosine_similarity
class CosineSimilarity : public FunctionModule<Tensor, Tensor> {
 public:
  explicit CosineSimilarity(int64_t axis = 1, double eps = 1e-8) : axis_(axis), eps_(eps) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& y) override {
    return cosine_similarity(x, y, axis_, eps_);
  }

 private:
  int64_t axis_;
  double eps_;
};

/// poisson_nll_loss
class PoissonNLLLoss : public Loss {
 public:
  explicit PoissonNLLLoss(bool log_input = true, bool full = false, double eps = 1e-8,
                          LossReduction reduction = LossReduction::kMean)
      : log_input_(log_input), full_(full), eps_(eps), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return poisson_nll_loss(x, target, log_input_, full_, eps_, reduction_);
  }

 private:
  bool log_input_;
  bool full_;
  double eps_;
  LossReduction reduction_;
};

/// gaussian_nll_loss
class GaussianNLLLoss : public FunctionModule<Tensor, Tensor, Tensor> {
 public:
  explicit GaussianNLLLoss(bool full = false, double eps = 1e-6,
                           LossReduction reduction = LossReduction::kMean)
      : full_(full), eps_(eps), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& y, const Tensor& z) override {
    return gaussian_nll_loss(x, y, z, full_, eps_, reduction_);
  }

 private:
  bool full_;
  double eps_;
  LossReduction reduction_;
};

/// margin_ranking_loss
class MarginRankingLoss : public FunctionModule<Tensor, Tensor, Tensor> {
 public:
  explicit MarginRankingLoss(double margin = 0, LossReduction reduction = LossReduction::kMean)
      : margin_(margin), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& y, const Tensor& z) override {
    return margin_ranking_loss(x, y, z, margin_, reduction_);
  }

 private:
  double margin_;
  LossReduction reduction_;
};

/// hinge_embedding_loss
class HingeEmbeddingLoss : public Loss {
 public:
  explicit HingeEmbeddingLoss(double margin = 1, LossReduction reduction = LossReduction::kMean)
      : margin_(margin), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return hinge_embedding_loss(x, target, margin_, reduction_);
  }

 private:
  double margin_;
  LossReduction reduction_;
};

/// cosine_embedding_loss
class CosineEmbeddingLoss : public FunctionModule<Tensor, Tensor, Tensor> {
 public:
  explicit CosineEmbeddingLoss(double margin = 0, LossReduction reduction = LossReduction::kMean)
      : margin_(margin), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& y, const Tensor& z) override {
    return cosine_embedding_loss(x, y, z, margin_, reduction_);
  }

 private:
  double margin_;
  LossReduction reduction_;
};

/// triplet_margin_loss
class TripletMarginLoss : public FunctionModule<Tensor, Tensor, Tensor> {
 public:
  explicit TripletMarginLoss(double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                             LossReduction reduction = LossReduction::kMean)
      : margin_(margin), p_(p), eps_(eps), swap_(swap), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& y, const Tensor& z) override {
    return triplet_margin_loss(x, y, z, margin_, p_, eps_, swap_, reduction_);
  }

 private:
  double margin_;
  double p_;
  double eps_;
  bool swap_;
  LossReduction reduction_;
};

/// soft_margin_loss
class SoftMarginLoss : public Loss {
 public:
  explicit SoftMarginLoss(LossReduction reduction = LossReduction::kMean) : reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return soft_margin_loss(x, target, reduction_);
  }

 private:
  LossReduction reduction_;
};

/// multilabel_soft_margin_loss
class MultiLabelSoftMarginLoss : public Loss {
 public:
  explicit MultiLabelSoftMarginLoss(const Tensor& weight = {},
                                    LossReduction reduction = LossReduction::kMean)
      : weight_(add_buffer("weight", weight)), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return multilabel_soft_margin_loss(x, target, weight_, reduction_);
  }

 private:
  Buffer weight_;
  LossReduction reduction_;
};

/// multi_margin_loss
class MultiMarginLoss : public Loss {
 public:
  explicit MultiMarginLoss(int64_t p = 1, double margin = 1, const Tensor& weight = {},
                           LossReduction reduction = LossReduction::kMean)
      : weight_(add_buffer("weight", weight)), p_(p), margin_(margin), reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return multi_margin_loss(x, target, p_, margin_, weight_, reduction_);
  }

 private:
  Buffer weight_;
  int64_t p_;
  double margin_;
  LossReduction reduction_;
};

/// multilabel_margin_loss
class MultiLabelMarginLoss : public Loss {
 public:
  explicit MultiLabelMarginLoss(LossReduction reduction = LossReduction::kMean)
      : reduction_(reduction) {}

 protected:
  Tensor compute(const Tensor& x, const Tensor& target) override {
    return multilabel_margin_loss(x, target, reduction_);
  }

 private:
  LossReduction reduction_;
};

}  // namespace wick::nn
