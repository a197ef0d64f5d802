#pragma once

#include <functional>

#include "wick/core/ops/loss.h"

// Losses of margins and of distributions. As in loss.h, the result is one number, or with kNone one
// per element or row. What is computed from 16-bit inputs is computed in float32 and rounded once.

namespace wick {

/// exp(x) - target x, or x - target log(x + eps) unless `log_input`; `full` adds Stirling's
/// approximation of log(target!) for targets above 1.
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input = true,
                        bool full = false, double eps = 1e-8,
                        LossReduction reduction = LossReduction::kMean);
/// (log(var) + (x - target)^2 / var) / 2 with `var` kept above eps, which passes no gradient of
/// its own; `full` adds log(2 pi) / 2. var: x's shape, or with a last axis of 1, or without it.
/// Error for a var below 0, which waits for the device.
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var,
                         bool full = false, double eps = 1e-6,
                         LossReduction reduction = LossReduction::kMean);
/// max(0, margin - target (x1 - x2)) for targets 1 and -1. Shapes broadcast.
Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                           double margin = 0, LossReduction reduction = LossReduction::kMean);
/// x for target 1, max(0, margin - x) for target -1, and both together for all others.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                            LossReduction reduction = LossReduction::kMean);
/// 1 - cos(x1, x2) for target 1, max(0, cos(x1, x2) - margin) for target -1. x1, x2: [N, D] or
/// [D], target [N] or one number.
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             double margin = 0, LossReduction reduction = LossReduction::kMean);
/// max(0, |anchor - positive| - |anchor - negative| + margin), distances by the p-norm along the
/// last axis of [N, D] or [D], with eps added to each difference. `swap` takes the distance of
/// positive and negative where that is less. Balntas et al.: Learning local feature descriptors
/// with triplets and shallow convolutional neural networks (2016).
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                           LossReduction reduction = LossReduction::kMean);
/// The same by a distance of the caller's: `distance(a, b)` gives one for each row, in float32 for
/// 16-bit inputs.
Tensor triplet_margin_with_distance_loss(
    const Tensor& anchor, const Tensor& positive, const Tensor& negative,
    const std::function<Tensor(const Tensor&, const Tensor&)>& distance, double margin = 1,
    bool swap = false, LossReduction reduction = LossReduction::kMean);
/// The p-norm of x - y + eps along the last axis.
Tensor pairwise_distance(const Tensor& x, const Tensor& y, double p = 2, double eps = 1e-6,
                         bool keepdim = false);
/// log(1 + exp(-target x)) for targets 1 and -1.
Tensor soft_margin_loss(const Tensor& x, const Tensor& target,
                        LossReduction reduction = LossReduction::kMean);
/// The mean over C classes of binary cross entropy with logits: x and target [N, C] or [C].
/// `weight` [C] may be undefined.
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                   LossReduction reduction = LossReduction::kMean);
/// The sum over classes j other than the target y of weight[y] max(0, margin - x[y] + x[j])^p, over
/// C. x: [N, C] or [C]; target: int64 [N] or one number; p: 1 or 2. `weight` [C] may be undefined.
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, int64_t p = 1, double margin = 1,
                         const Tensor& weight = {}, LossReduction reduction = LossReduction::kMean);
/// The sum over targets y and classes j that are none of max(0, 1 - (x[y] - x[j])), over C. x and
/// int64 target [N, C] or [C]: a row's targets end at the first -1.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target,
                              LossReduction reduction = LossReduction::kMean);

namespace detail {
/// `loss` as the reduction says.
Tensor reduced_loss(const Tensor& loss, LossReduction reduction);
}  // namespace detail

}  // namespace wick
