#pragma once

#include <cstdint>
#include <optional>

#include "wick/core/base/check.h"
#include "wick/optim/grad_scaler.h"
#include "wick/optim/optimizer.h"

// Gradient accumulation: a step's examples in several pieces, one after another, so that the
// activations of one piece alone need memory. accumulate() cuts a batch that is there as a whole;
// GradAccumulator gathers the batches of a loader. What depends on a whole batch, such as batch
// normalisation, sees pieces.
namespace wick::optim {

/// Cuts a batch of `examples` examples into `pieces` pieces and calls run(begin, end, share) for
/// each, where `share` is its part of all examples. Multiply the piece's mean loss by `share`
/// before its backward pass. The gradients then add up to those of the mean over all, also where
/// pieces differ in size. Clip and step once, afterwards. Where there are fewer examples than
/// pieces, each piece is one example.
///
///   optimizer.zero_grad();
///   optim::accumulate(x.size(0), 4, [&](int64_t begin, int64_t end, double share) {
///     (loss(model(x.slice(0, begin, end)), y.slice(0, begin, end)) * share).backward();
///   });
///   optimizer.step({.max_norm = 1.0});
template <class Run>
void accumulate(int64_t examples, int64_t pieces, const Run& run) {
  WICK_CHECK(examples >= 1, "accumulate: examples: got ", examples, ", expected 1 or more");
  WICK_CHECK(pieces >= 1, "accumulate: pieces: got ", pieces, ", expected 1 or more");
  const int64_t count = pieces < examples ? pieces : examples;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = examples * i / count, end = examples * (i + 1) / count;
    run(begin, end, static_cast<double>(end - begin) / static_cast<double>(examples));
  }
}

/// Options of GradAccumulator. Error for an `every` below 1.
struct GradAccumulatorOptions {
  int64_t every = 1;                    // batches of a step
  std::optional<double> max_norm = {};  // that the gradients of a step are clipped to
  amp::GradScaler* scaler = nullptr;    // scales losses, and takes the steps
};

/// Takes a step for every few batches of a loader, with the gradient of the mean loss over all of
/// their examples. Batches may be of any sizes, and an epoch may end before a step has all of its
/// batches.
///
///   optim::GradAccumulator steps(optimizer, {.every = 4, .max_norm = 1, .scaler = &scaler});
///   for (const data::Batch& batch : loader) {
///     steps.backward(cross_entropy(model(batch[0]), batch[1]), batch.size());
///     if (steps.step()) {
///       counted.step(steps.found_inf());  // a DeviceSchedule, which then counts no skipped step
///     }
///   }
///   if (steps.flush()) counted.step(steps.found_inf());  // what was left
///
/// The factors of losses are found without knowing what is still to come: a batch as large as the
/// largest so far gets 1 / every. Only where that was not right for all, as in the last step of an
/// epoch, gradients are divided once more, in place, before they are clipped.
///
/// Ranks exchange gradients in the last batch of a step alone. So they ask before its forward pass,
/// and say where no other batch follows; each has as many examples as the others.
///
///     const bool is_end = loader.batch() == loader.size();
///     std::optional<dist::DistributedDataParallel::NoSync> gathering;
///     if (!steps.next_completes_step(is_end)) gathering.emplace(model);
///     steps.backward(...);
///     if (steps.step(is_end)) ...
class GradAccumulator {
 public:
  using Options = GradAccumulatorOptions;
  /// Forgets gradients. The optimizer, and the scaler if there is one, must outlive it.
  explicit GradAccumulator(Optimizer& optimizer, const Options& options = {});

  /// Whether the next batch is the last of its step; `is_end`: no other follows it.
  bool next_completes_step(bool is_end = false);
  /// Backward of a batch's mean `loss` over its `examples` (tokens, or what else counts; as many on
  /// all ranks that exchange gradients, or weights drift apart). After an error of it, discard().
  void backward(const Tensor& loss, int64_t examples);
  /// Takes the step if it has all of its batches, or if `is_end` and it has any; unscales, clips,
  /// updates the scaler and forgets gradients with it. Returns whether it did; a scaler may still
  /// have skipped it. Error if next_completes_step() has denied it of the batch before.
  bool step(bool is_end = false);
  /// Takes the step of the batches that are left at the end of an epoch, if any are.
  bool flush() { return step(/*is_end=*/true); }
  /// Forgets the batches since the last step, and gradients.
  void discard();

  /// Steps so far, those included that the scaler skipped.
  int64_t steps() const { return steps_; }
  /// Of the last step: the norm that was clipped (float64, rank 0), undefined without max_norm.
  const Tensor& grad_norm() const { return grad_norm_; }
  /// Of the last step: not 0 if the scaler skipped it (float32, rank 0), undefined without one: for
  /// Ema::update and what else must not follow such a step.
  const Tensor& found_inf() const { return found_inf_; }

 private:
  /// Divides gradients by what the losses' factors add up to.
  void settle_shares();

  Optimizer& optimizer_;
  Options options_;
  int64_t largest_ = 0;   // batch so far
  int64_t batches_ = 0;   // since the last step
  int64_t examples_ = 0;  // of them
  int64_t expected_ = 0;  // the number of examples of a step that their factors are made for
  int64_t steps_ = 0;
  std::optional<bool> completes_;  // what was said of the next batch
  bool is_denied_ = false;         // whether the newest batch was said not to be the last
  Tensor grad_norm_, found_inf_;
};

}  // namespace wick::optim
