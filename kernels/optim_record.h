#pragma once

#include "wick/kernels/gradient_norm_rules.h"
#include "wick/kernels/optim_layer_rules.h"

// What is made of a step's arguments for each tensor, on its device and before its elements are
// updated: a record, in the step's scratch memory.

namespace wick {

template <class Rule>
inline constexpr bool kMeasures = requires {
  Rule::kMeasured;
};
/// The states that a rule's measuring changes, and those that its update does.
template <class Rule>
constexpr uint32_t measured_states() {
  if constexpr (kMeasures<Rule>) return Rule::kMeasured;
  return 0;
}
template <class Rule>
constexpr uint32_t written_states() {
  return Rule::kStates & ~measured_states<Rule>();
}

/// Rules whose gradient is without weight decay, which they add themselves.
template <class Rule>
inline constexpr bool kOwnDecay = false;
template <class T>
inline constexpr bool kOwnDecay<Lamb<T>> = true;
template <class T>
inline constexpr bool kOwnDecay<Novograd<T>> = true;

template <class Rule, class T>
struct OptimRecord {
  bool skip;
  Rule rule;
  OptimElement<T> element;
};

WICK_HOST_DEVICE void set_momentum(OptimArgs&, double) {}
WICK_HOST_DEVICE void set_momentum(SgdArgs& args, double value) { args.momentum = value; }
WICK_HOST_DEVICE void set_momentum(AdamArgs& args, double value) { args.beta1 = value; }
WICK_HOST_DEVICE void set_momentum(RmspropArgs& args, double value) { args.momentum = value; }
WICK_HOST_DEVICE void set_momentum(LarsArgs& args, double value) { args.momentum = value; }

/// What the gradients of a step are multiplied by.
WICK_HOST_DEVICE double grad_factor(const OptimStep& step) {
  const double unscale = unscale_factor(step.grad_scale);
  return step.grad_norm != nullptr ? unscale * clip_factor(*step.grad_norm, step.max_norm)
                                   : unscale;
}

WICK_HOST_DEVICE bool is_skipped(const OptimStep& step) {
  if (step.found_inf != nullptr && *step.found_inf != 0) return true;
  return step.skip_non_finite && !is_finite(*step.grad_norm);
}

/// Counts an update of a tensor with these numbers and makes its record, unless it is skipped.
template <class Rule, class T, class Args>
WICK_HOST_DEVICE void make_record(OptimRecord<Rule, T>& record, double* numbers, Args args,
                                  const OptimStep& step) {
  record.skip = is_skipped(step);
  if (record.skip) return;
  if (step.rates != nullptr) {
    args.lr = step.rates[0];
    set_momentum(args, step.rates[1]);
  }
  numbers[0] += 1;
  record.rule = Rule(args, numbers[0], numbers[1]);
  record.element = OptimElement<T>(args, grad_factor(step));
  if constexpr (kOwnDecay<Rule>) record.element.l2 = T(0);
}

/// The parameter that an update works on: its master, unless somebody else changed it.
template <class S>
WICK_HOST_DEVICE float master_of(float master, S param) {
  return S(master).bits == param.bits ? master : static_cast<float>(param);
}

}  // namespace wick
