// Losses and distances.
#include "wick/tests/golden/module.h"

namespace wick::golden {
namespace {

using X = const Tensor&;
using L = LossReduction;

// A module of two inputs, or of three.
template <class M>
Tensor run_two(M& m, X x1, X x2) {
  return m(x1, x2);
}
template <class M>
Tensor run_three(M& m, X x, X y, X z) {
  return m(x, y, z);
}

const ModuleTable module_losses({
    {"CrossEntropyLoss",
     {loss(
         +[](X weight, int64_t ignore_index, L reduction, double smoothing) {
           return nn::CrossEntropyLoss({weight, ignore_index, smoothing, reduction});
         },
         "weight=null !size_average=null ignore_index=-100 !reduce=null reduction=\"mean\" "
         "label_smoothing=0.0")}},
    {"NLLLoss",
     {loss(
         +[](X weight, int64_t ignore_index, L reduction) {
           return nn::NLLLoss({weight, ignore_index, reduction});
         },
         "weight=null !size_average=null ignore_index=-100 !reduce=null reduction=\"mean\"")}},
    {"MSELoss",
     {loss(
         +[](L reduction) { return nn::MSELoss(reduction); },
         "!size_average=null !reduce=null reduction=\"mean\"")}},
    {"L1Loss",
     {loss(
         +[](L reduction) { return nn::L1Loss(reduction); },
         "!size_average=null !reduce=null reduction=\"mean\"")}},
    {"SmoothL1Loss",
     {loss(
         +[](L reduction, double beta) { return nn::SmoothL1Loss(beta, reduction); },
         "!size_average=null !reduce=null reduction=\"mean\" beta=1.0")}},
    {"HuberLoss",
     {loss(
         +[](L reduction, double delta) { return nn::HuberLoss(delta, reduction); },
         "reduction=\"mean\" delta=1.0")}},
    {"BCELoss",
     {loss(
         +[](X weight, L reduction) { return nn::BCELoss(weight, reduction); },
         "weight=null !size_average=null !reduce=null reduction=\"mean\"")}},
    {"BCEWithLogitsLoss",
     {loss(
         +[](X weight, L reduction, X pos_weight) {
           return nn::BCEWithLogitsLoss(weight, pos_weight, reduction);
         },
         "weight=null !size_average=null !reduce=null reduction=\"mean\" pos_weight=null")}},
    {"KLDivLoss",
     {loss(
         +[](L reduction, bool log_target) { return nn::KLDivLoss(log_target, reduction); },
         "!size_average=null !reduce=null reduction=\"mean\" log_target=false")}},
    {"PoissonNLLLoss",
     {layer(
         +[](bool log_input, bool full, double eps, L reduction) {
           return nn::PoissonNLLLoss(log_input, full, eps, reduction);
         },
         "log_input=true full=false !size_average=null eps=1e-8 !reduce=null reduction=\"mean\"",
         run_two<nn::PoissonNLLLoss>, "log_input target")}},
    {"GaussianNLLLoss",
     {layer(
         +[](bool full, double eps, L reduction) {
           return nn::GaussianNLLLoss(full, eps, reduction);
         },
         "full=false eps=1e-6 reduction=\"mean\"", run_three<nn::GaussianNLLLoss>,
         "input target var")}},
});

const auto make_ctc = +[](int64_t blank, L reduction, bool zero_infinity) {
  return nn::CTCLoss({blank, reduction, zero_infinity});
};
const char* const kCtc = "blank=0 reduction=\"mean\" zero_infinity=false";
const char* const kCtcCall = "log_probs targets input_lengths target_lengths";
using Lengths = const std::vector<int64_t>&;

const ModuleTable module_ctc_losses({
    {"CTCLoss",
     {layer(
          make_ctc, kCtc,
          +[](nn::CTCLoss& m, X logs, X targets, Lengths inputs, Lengths labels) {
            return m(logs, targets, inputs, labels);
          },
          kCtcCall),
      layer(
          make_ctc, kCtc,
          +[](nn::CTCLoss& m, X logs, X targets, X inputs, X labels) {
            return m(logs, targets, inputs, labels);
          },
          kCtcCall)}},
});

const ModuleTable module_margins({
    {"HingeEmbeddingLoss",
     {loss(
         +[](double margin, L reduction) { return nn::HingeEmbeddingLoss(margin, reduction); },
         "margin=1.0 !size_average=null !reduce=null reduction=\"mean\"")}},
    {"MarginRankingLoss",
     {layer(
         +[](double margin, L reduction) { return nn::MarginRankingLoss(margin, reduction); },
         "margin=0.0 !size_average=null !reduce=null reduction=\"mean\"",
         run_three<nn::MarginRankingLoss>, "input1 input2 target")}},
    {"CosineEmbeddingLoss",
     {layer(
         +[](double margin, L reduction) { return nn::CosineEmbeddingLoss(margin, reduction); },
         "margin=0.0 !size_average=null !reduce=null reduction=\"mean\"",
         run_three<nn::CosineEmbeddingLoss>, "input1 input2 target")}},
    {"TripletMarginLoss",
     {layer(
         +[](double margin, double p, double eps, bool swap, L reduction) {
           return nn::TripletMarginLoss(margin, p, eps, swap, reduction);
         },
         "margin=1.0 p=2.0 eps=1e-6 swap=false !size_average=null !reduce=null "
         "reduction=\"mean\"",
         run_three<nn::TripletMarginLoss>, "anchor positive negative")}},
    {"SoftMarginLoss",
     {loss(
         +[](L reduction) { return nn::SoftMarginLoss(reduction); },
         "!size_average=null !reduce=null reduction=\"mean\"")}},
    {"MultiLabelSoftMarginLoss",
     {loss(
         +[](X weight, L reduction) { return nn::MultiLabelSoftMarginLoss(weight, reduction); },
         "weight=null !size_average=null !reduce=null reduction=\"mean\"")}},
    {"MultiLabelMarginLoss",
     {loss(
         +[](L reduction) { return nn::MultiLabelMarginLoss(reduction); },
         "!size_average=null !reduce=null reduction=\"mean\"")}},
    {"MultiMarginLoss",
     {loss(
         +[](int64_t p, double margin, X weight, L reduction) {
           return nn::MultiMarginLoss(p, margin, weight, reduction);
         },
         "p=1 margin=1.0 weight=null !size_average=null !reduce=null reduction=\"mean\"")}},
    {"PairwiseDistance",
     {layer(
         +[](double p, double eps, bool keepdim) { return nn::PairwiseDistance(p, eps, keepdim); },
         "p=2.0 eps=1e-6 keepdim=false", run_two<nn::PairwiseDistance>, "x1 x2")}},
    {"CosineSimilarity",
     {layer(
         +[](int64_t axis, double eps) { return nn::CosineSimilarity(axis, eps); },
         "dim=1 eps=1e-8", run_two<nn::CosineSimilarity>, "x1 x2")}},
});

}  // namespace
}  // namespace wick::golden
