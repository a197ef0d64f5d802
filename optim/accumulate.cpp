#include "wick/optim/accumulate.h"

#include "wick/core/autograd.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/sparse_rows.h"

namespace wick::optim {

GradAccumulator::GradAccumulator(Optimizer& optimizer, const Options& options)
    : optimizer_(optimizer), options_(options) {
  WICK_CHECK(options.every >= 1, "grad_accumulator: every: got ", options.every,
             ", expected 1 or more batches");
  discard();
}

bool GradAccumulator::next_completes_step(bool is_end) {
  completes_ = is_end || batches_ + 1 >= options_.every;
  return *completes_;
}

void GradAccumulator::backward(const Tensor& loss, int64_t examples) {
  WICK_CHECK(!graph::is_tracing(),
             "grad_accumulator: backward: got a call within a trace, which would keep the count of "
             "batches as it is now: expected one outside, or optim::accumulate()");
  WICK_CHECK(examples >= 1, "grad_accumulator: backward: examples: got ", examples,
             ", expected 1 or more");
  WICK_CHECK(batches_ < options_.every, "grad_accumulator: backward: all ", options_.every,
             " batches of a step are there: expected step() first");
  is_denied_ = completes_ && !*completes_;
  completes_.reset();
  largest_ = std::max(largest_, examples);
  if (batches_ == 0) expected_ = options_.every * largest_;
  const double share = static_cast<double>(examples) / static_cast<double>(expected_);
  const Tensor part = share == 1 ? loss : loss * share;
  (options_.scaler == nullptr ? part : options_.scaler->scale(part)).backward();
  ++batches_;
  examples_ += examples;
}

void GradAccumulator::settle_shares() {
  if (examples_ == expected_) return;
  const NoGrad no_grad;
  const double factor = static_cast<double>(expected_) / static_cast<double>(examples_);
  for (int g = 0; g < optimizer_.num_groups(); ++g) {
    for (const Tensor& param : optimizer_.params(g)) {
      if (param.grad().defined()) gradient_elements(param.grad()).mul_(factor);
    }
  }
  expected_ = examples_;  // a step that fails for lack of memory may be taken again
}

bool GradAccumulator::step(bool is_end) {
  if (batches_ == 0 || (batches_ < options_.every && !is_end)) return false;
  WICK_CHECK(
      !is_denied_,
      "grad_accumulator: step: next_completes_step() has said that the last batch would not be "
      "the last of its step, so ranks have not exchanged gradients: expected it to be told "
      "of the end of the epoch");
  settle_shares();
  amp::GradScaler* const scaler = options_.scaler;
  if (scaler == nullptr) {
    grad_norm_ = optimizer_.step({.max_norm = options_.max_norm});
  } else {
    grad_norm_ = scaler->step(optimizer_, options_.max_norm);
    if (scaler->enabled()) found_inf_ = scaler->found_inf(optimizer_);
  }
  ++steps_;
  discard();
  if (scaler != nullptr) scaler->update();
  return true;
}

void GradAccumulator::discard() {
  optimizer_.zero_grad();
  batches_ = examples_ = 0;
  is_denied_ = false;
  completes_.reset();
}

}  // namespace wick::optim
