#pragma once

#include <vector>

#include "wick/core/tensor.h"

// Losses. `x` is the prediction. Unless said otherwise target has x's shape, and the result is one
// number, or with Reduction kNone one per element. The targets of mse_loss, l1_loss, smooth_l1_loss
// and huber_loss may have another shape, which broadcasts with x's.
namespace wick {

/// What becomes of the losses of single elements (or rows).
enum class LossReduction : uint8_t { kNone, kMean, kSum, kBatchMean };

/// Options of cross_entropy(), as torch.nn.CrossEntropyLoss, and `in_place`. kBatchMean is an
/// error.
struct CrossEntropyOptions {
  Tensor weight = {};           // [C], floating: how much a class counts; 1 if undefined
  int64_t ignore_index = -100;  // rows with this class index count nothing
  double label_smoothing = 0;   // part of the target spread evenly over all classes
  LossReduction reduction = LossReduction::kMean;  // over the weights of the rows that count
  /// Backward writes the gradient over the logits, which are then gone: a tensor of their size
  /// less. For targets that are class indices; error if x is a leaf. An op that needs the logits in
  /// backward too gets an error there, as does a second backward.
  bool in_place = false;
};

/// -log softmax(x)[target]: cross entropy of logits x [N, C], [C] or [N, C, ...] with targets that
/// are class indices (integer, x's shape without C) or probabilities (floating, x's shape). Error
/// for an index outside [0, C) that is not ignore_index; on a GPU, where the kernel finds it, such
/// an error ends the process' use of the device.
Tensor cross_entropy(const Tensor& x, const Tensor& target,
                     const CrossEntropyOptions& options = {});

/// -x[target] for log-probabilities x; shapes, `weight` and `ignore_index` as in cross_entropy.
Tensor nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                int64_t ignore_index = -100, LossReduction reduction = LossReduction::kMean);

/// (x - target)^2
Tensor mse_loss(const Tensor& x, const Tensor& target,
                LossReduction reduction = LossReduction::kMean);
/// |x - target|
Tensor l1_loss(const Tensor& x, const Tensor& target,
               LossReduction reduction = LossReduction::kMean);
/// With d = |x - target|: d^2 / (2 beta) below beta, else d - beta / 2. Girshick: Fast R-CNN
/// (2015).
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      LossReduction reduction = LossReduction::kMean);
/// With d = |x - target|: d^2 / 2 below delta, else delta (d - delta / 2). Huber (1964).
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                  LossReduction reduction = LossReduction::kMean);
/// -(target log x + (1 - target) log(1 - x)), logarithms kept above -100; x in [0, 1]. `weight`, if
/// defined, multiplies it and broadcasts.
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                            LossReduction reduction = LossReduction::kMean);
/// binary_cross_entropy(sigmoid(x), target) without its loss of accuracy. `pos_weight`, if defined,
/// multiplies the part of positive targets and broadcasts.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        const Tensor& weight = {}, const Tensor& pos_weight = {},
                                        LossReduction reduction = LossReduction::kMean);
/// target (log target - x) for log-probabilities x; with `log_target` the target is given as its
/// logarithm. kBatchMean divides the sum by x.size(0), which is the mathematical definition.
Tensor kl_div(const Tensor& x, const Tensor& target, bool log_target = false,
              LossReduction reduction = LossReduction::kMean);

/// Options of ctc_loss(), as torch.nn.CTCLoss.
struct CtcOptions {
  int64_t blank = 0;  // the class that is no label
  /// kMean: of each loss over its number of labels.
  LossReduction reduction = LossReduction::kMean;
  bool zero_infinity = false;  // losses of samples that no path fits are 0, and so their gradients
};

/// -log of the probability that steps of log-probabilities give a target, with repetitions and
/// blanks taken out. Graves et al.: Connectionist temporal classification (2006).
///
/// log_probs: [T, N, C], or [T, C] of one sample. targets: int64 or int32, [N, S] or all one after
/// another. The lengths: of each sample how many steps (at most T) and labels there are. The
/// gradient is that of logits whose log_softmax is log_probs, as PyTorch's.
///
/// Error for a label outside [0, C). On a GPU, where the kernel finds it, such an error ends the
/// process' use of the device.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, const CtcOptions& options = {});
/// The same with lengths as tensors [N], or of rank 0 for one sample. Waits for their device.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options = {});

}  // namespace wick
