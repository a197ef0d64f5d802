// Losses.
#include "wick/core/ops/linear_cross_entropy.h"
#include "wick/core/ops/margin_loss.h"
#include "wick/tests/golden/opinfo.h"

namespace wick::golden {
namespace {

using X = const Tensor&;
using L = LossReduction;

Tensor entropy(X x, X target, X weight, int64_t ignore_index, L reduction, double smoothing) {
  return cross_entropy(x, target, {weight, ignore_index, smoothing, reduction});
}

const Opinfo losses({
    {"nn.functional.binary_cross_entropy",
     {call(binary_cross_entropy,
           "input target weight=null !size_average=null !reduce=null reduction=\"mean\"")}},
    {"nn.functional.binary_cross_entropy_with_logits",
     {call(
         +[](X x, X target, X weight, L reduction, X pos_weight) {
           return binary_cross_entropy_with_logits(x, target, weight, pos_weight, reduction);
         },
         "input target weight=null !size_average=null !reduce=null reduction=\"mean\" "
         "pos_weight=null")}},
    {"nn.functional.cosine_embedding_loss",
     {call(cosine_embedding_loss, "input1 input2 target margin=0 reduction=\"mean\"")}},
    {"nn.functional.cross_entropy",
     {call(entropy,
           "input target weight=null !size_average=null ignore_index=-100 !reduce=null "
           "reduction=\"mean\" label_smoothing=0.0")}},
    {"nn.functional.linear_cross_entropy",
     {call(
         +[](X x, X linear_weight, X target, X bias, X weight, L reduction,
             const std::optional<int64_t>& ignore_index, double smoothing, const Argument&) {
           // The options say into which parts PyTorch cuts the work.
           return linear_cross_entropy(x, linear_weight, target, bias,
                                       {weight, ignore_index.value_or(-100), smoothing, reduction});
         },
         "input linear_weight target linear_bias=null weight=null reduction=\"mean\" "
         "ignore_index=null label_smoothing=0.0 options=null")}},
    {"nn.functional.ctc_loss",
     {call(
          +[](X logs, X targets, X inputs, X labels, int64_t blank, L reduction, bool zero) {
            return ctc_loss(logs, targets, inputs, labels, {blank, reduction, zero});
          },
          "log_probs targets input_lengths target_lengths blank=0 reduction=\"mean\" "
          "zero_infinity=false"),
      call(
          +[](X logs, X targets, const std::vector<int64_t>& inputs,
              const std::vector<int64_t>& labels, int64_t blank, L reduction, bool zero) {
            return ctc_loss(logs, targets, inputs, labels, {blank, reduction, zero});
          },
          "log_probs targets input_lengths target_lengths blank=0 reduction=\"mean\" "
          "zero_infinity=false")}},
    {"nn.functional.gaussian_nll_loss",
     {call(gaussian_nll_loss, "input target var full=false eps=1e-6 reduction=\"mean\"")}},
    {"nn.functional.hinge_embedding_loss",
     {call(hinge_embedding_loss, "input target margin=1.0 reduction=\"mean\"")}},
    {"nn.functional.huber_loss",
     {call(
         +[](X x, X target, L reduction, double delta) {
           return huber_loss(x, target, delta, reduction);
         },
         "input target reduction=\"mean\" delta=1.0 !weight=null")}},
    {"nn.functional.kl_div",
     {call(
         +[](X x, X target, L reduction, bool log_target) {
           return kl_div(x, target, log_target, reduction);
         },
         "input target !size_average=null !reduce=null reduction=\"mean\" log_target=false")}},
    {"nn.functional.l1_loss",
     {call(l1_loss, "input target !size_average=null !reduce=null reduction=\"mean\"")}},
});

const Opinfo more_losses({
    {"nn.functional.margin_ranking_loss",
     {call(margin_ranking_loss, "input1 input2 target margin=0 reduction=\"mean\"")}},
    {"nn.functional.mse_loss",
     {call(mse_loss,
           "input target !size_average=null !reduce=null reduction=\"mean\" !weight=null")}},
    {"nn.functional.multi_margin_loss",
     {call(multi_margin_loss, "input target p=1 margin=1.0 weight=null reduction=\"mean\"")}},
    {"nn.functional.multilabel_margin_loss",
     {call(multilabel_margin_loss, "input target reduction=\"mean\"")}},
    {"nn.functional.multilabel_soft_margin_loss",
     {call(multilabel_soft_margin_loss, "input target weight=null reduction=\"mean\"")}},
    {"nn.functional.nll_loss",
     {call(
         +[](X x, X target, X weight, int64_t ignore_index, L reduction) {
           return nll_loss(x, target, weight, ignore_index, reduction);
         },
         "input target weight=null !size_average=null ignore_index=-100 !reduce=null "
         "reduction=\"mean\"")}},
    {"nn.functional.pairwise_distance",
     {call(pairwise_distance, "x1 x2 p=2.0 eps=1e-6 keepdim=false")}},
    {"nn.functional.poisson_nll_loss",
     {call(poisson_nll_loss,
           "input target log_input=true full=false !size_average=null eps=1e-8 !reduce=null "
           "reduction=\"mean\"")}},
    {"nn.functional.smooth_l1_loss",
     {call(
         +[](X x, X target, L reduction, double beta) {
           return smooth_l1_loss(x, target, beta, reduction);
         },
         "input target !size_average=null !reduce=null reduction=\"mean\" beta=1.0")}},
    {"nn.functional.soft_margin_loss",
     {call(soft_margin_loss, "input target !size_average=null !reduce=null reduction=\"mean\"")}},
    {"nn.functional.triplet_margin_loss",
     {call(triplet_margin_loss,
           "anchor positive negative margin=1.0 p=2 eps=1e-6 swap=false !size_average=null "
           "!reduce=null reduction=\"mean\"")}},
    {"nn.functional.triplet_margin_with_distance_loss",
     {call(
         +[](X anchor, X positive, X negative, const Argument&, double margin, bool swap,
             L reduction) {
           const auto distance = [](X x, X y) { return pairwise_distance(x, y); };
           return triplet_margin_with_distance_loss(anchor, positive, negative, distance, margin,
                                                    swap, reduction);
         },
         "anchor positive negative distance_function margin=1.0 swap=false "
         "reduction=\"mean\"")}},
});

}  // namespace
}  // namespace wick::golden
