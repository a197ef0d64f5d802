// CTC: the sum over all alignments of a batch of sequences.
#include "wick/bench/kernels/row.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/softmax.h"

namespace wick::bench::ctc_rows {
namespace {

// Frames of speech: 32 classes and up to a label every four steps.
constexpr int64_t kSteps = 400, kClasses = 32, kLabels = 100;

Tensor loss_of(const Tensors& x) {
  const auto batch = static_cast<size_t>(x[0].size(1));
  const std::vector<int64_t> steps(batch, x[0].size(0)), labels(batch, x[1].size(1));
  return ctc_loss(log_softmax(x[0], 2), x[1], steps, labels, {.blank = kClasses - 1});
}

[[maybe_unused]] const bool kLoss =
    add_op({.name = "ctc/loss_400x32x32",
            .inputs =
                [](const Setting& s) {
                  const int64_t batch = s.some(32);
                  return Tensors{normal({s.some(kSteps), batch, kClasses}),
                                 indices({batch, s.some(kLabels)}, kClasses - 1)};
                },
            .call = [](const Tensors& x) { return Tensors{loss_of(x)}; },
            .dtypes = {kFloat32},
            .check_shrink = 16});  // log-probabilities of many steps have few digits left

}  // namespace
}  // namespace wick::bench::ctc_rows
