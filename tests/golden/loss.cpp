#include "wick/core/ops/loss.h"

#include "wick/core/ops/softmax.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {
namespace {

LossReduction reduction(Args& a) {
  const std::string name = a.text("reduction", "mean");
  if (name == "none") return LossReduction::kNone;
  if (name == "sum") return LossReduction::kSum;
  if (name == "batchmean") return LossReduction::kBatchMean;
  WICK_CHECK(name == "mean", "argument 'reduction': unknown: got ", name);
  return LossReduction::kMean;
}

Tensors cross_entropy_of(const Inputs& in, Args& a) {
  CrossEntropyOptions options;
  options.weight = in.optional(2);
  options.ignore_index = a.integer("ignore_index", options.ignore_index);
  options.label_smoothing = a.number("label_smoothing", options.label_smoothing);
  options.reduction = reduction(a);
  return {cross_entropy(in[0], in[1], options)};
}

const Family loss_family(
    "loss",
    op_runner({
        {"softmax", [](const Inputs& in,
                       Args& a) { return Tensors{softmax(a.in_dtype(in[0]), a.integer("dim"))}; }},
        {"log_softmax",
         [](const Inputs& in, Args& a) {
           return Tensors{log_softmax(a.in_dtype(in[0]), a.integer("dim"))};
         }},
        {"cross_entropy", cross_entropy_of},
        {"nll_loss",
         [](const Inputs& in, Args& a) {
           return Tensors{nll_loss(in[0], in[1], in.optional(2), a.integer("ignore_index", -100),
                                   reduction(a))};
         }},
        {"mse_loss",
         [](const Inputs& in, Args& a) { return Tensors{mse_loss(in[0], in[1], reduction(a))}; }},
        {"l1_loss",
         [](const Inputs& in, Args& a) { return Tensors{l1_loss(in[0], in[1], reduction(a))}; }},
        {"smooth_l1_loss",
         [](const Inputs& in, Args& a) {
           return Tensors{smooth_l1_loss(in[0], in[1], a.number("beta", 1.0), reduction(a))};
         }},
        {"huber_loss",
         [](const Inputs& in, Args& a) {
           return Tensors{huber_loss(in[0], in[1], a.number("delta", 1.0), reduction(a))};
         }},
        {"binary_cross_entropy",
         [](const Inputs& in, Args& a) {
           return Tensors{binary_cross_entropy(in[0], in[1], in.optional("weight"), reduction(a))};
         }},
        {"binary_cross_entropy_with_logits",
         [](const Inputs& in, Args& a) {
           return Tensors{binary_cross_entropy_with_logits(
               in[0], in[1], in.optional("weight"), in.optional("pos_weight"), reduction(a))};
         }},
        {"kl_div",
         [](const Inputs& in, Args& a) {
           return Tensors{kl_div(in[0], in[1], a.flag("log_target", false), reduction(a))};
         }},
    }));

}  // namespace
}  // namespace wick::golden
