#include "wick/core/ops/norm.h"

#include "wick/tests/golden/golden.h"

namespace wick::golden {
namespace {

BatchNormOptions batch_norm_options(Args& a) {
  BatchNormOptions options;
  options.training = a.flag("training", false);
  options.momentum = a.number("momentum", options.momentum);
  options.eps = a.number("eps", options.eps);
  return options;
}

// Inputs: x, weight, bias and the statistics, or x and the statistics.
Tensors batch_norm_and_statistics(const Inputs& in, Args& a) {
  const bool affine = in.size() != 3;
  const Tensor mean = in[affine ? 3 : 1].clone();
  const Tensor variance = in[affine ? 4 : 2].clone();
  const Tensor y = batch_norm(in[0], affine ? in[1] : Tensor(), affine ? in[2] : Tensor(), mean,
                              variance, batch_norm_options(a));
  return {y, mean, variance};
}

Tensors batch_norm_then_relu(const Inputs& in, Args& a) {
  return {
      batch_norm_relu(in[0], in[1], in[2], in[3].clone(), in[4].clone(), batch_norm_options(a))};
}

const Family norm_family(
    "norm",
    op_runner({
        {"batch_norm", batch_norm_and_statistics},
        {"batch_norm_relu", batch_norm_then_relu},
        {"layer_norm",
         [](const Inputs& in, Args& a) {
           return Tensors{layer_norm(in[0], a.shape("normalized_shape"), in.optional(1),
                                     in.optional(2), a.number("eps", 1e-5))};
         }},
        {"rms_norm",
         [](const Inputs& in, Args& a) {
           std::optional<double> eps;
           if (a.has("eps")) eps = a.number("eps");
           return Tensors{rms_norm(in[0], a.shape("normalized_shape"), in.optional(1), eps)};
         }},
        {"group_norm",
         [](const Inputs& in, Args& a) {
           return Tensors{group_norm(in[0], a.integer("num_groups"), in.optional(1), in.optional(2),
                                     a.number("eps", 1e-5))};
         }},
    }));

}  // namespace
}  // namespace wick::golden
