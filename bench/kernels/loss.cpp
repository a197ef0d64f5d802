// Losses: forward gives one number, backward the gradient of the prediction.
#include "wick/core/ops/loss.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/reduce.h"

namespace wick::bench::loss_rows {
namespace {

Tensor plain_cross_entropy(const Tensor& x, const Tensor& target, double smoothing) {
  const Tensor log_p = x - log(sum(exp(x), {1}, true));
  const Tensor picked = gather(log_p, 1, target.unsqueeze(1)).squeeze(1);
  return -mean((1 - smoothing) * picked + smoothing * mean(log_p, {1}));
}

bool add_cross_entropy(const char* name, int64_t rows, int64_t classes, double smoothing) {
  return add_op(
      {.name = concat("loss/cross_entropy_", name),
       .inputs =
           [=](const Setting& s) {
             const int64_t n = s.some(rows);
             return Tensors{normal({n, classes}), indices({n}, classes)};
           },
       .call =
           [=](const Tensors& x) {
             return Tensors{cross_entropy(x[0], x[1], {.label_smoothing = smoothing})};
           },
       .plain =
           [=](const Tensors& x) { return Tensors{plain_cross_entropy(x[0], x[1], smoothing)}; }});
}

[[maybe_unused]] const bool kCrossEntropy[] = {
    add_cross_entropy("8192x2048", 8192, 2048, 0),
    add_cross_entropy("256x50304", 256, 50304, 0),
    add_cross_entropy("smooth_256x1000", 256, 1000, 0.1),
};

[[maybe_unused]] const bool kMse =
    add_op({.name = "loss/mse",
            .inputs =
                [](const Setting& s) {
                  const Shape shape{s.some(1 << 22)};
                  return Tensors{normal(shape), normal(shape)};
                },
            .call = [](const Tensors& x) { return Tensors{mse_loss(x[0], x[1])}; },
            .plain = [](const Tensors& x) { return Tensors{mean((x[0] - x[1]) * (x[0] - x[1]))}; },
            .dtypes = {kFloat32}});

}  // namespace
}  // namespace wick::bench::loss_rows
