#pragma once

#include "wick/kernels/clip_rules.h"
#include "wick/kernels/gradient_norm_rules.h"
#include "wick/kernels/optim_rule.h"

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

/// Whether the rule's gradient is without weight decay, which it adds itself.
template <class Rule>
constexpr bool has_own_decay() {
  if constexpr (requires { Rule::kOwnDecay; }) return Rule::kOwnDecay;
  return false;
}

/// What is done to parameter and gradient before the rule sees them.
template <class T>
struct OptimElement {
  T factor, shrink, l2;
  /// `grad_factor`: what gradients are multiplied by.
  WICK_HOST_DEVICE OptimElement(const OptimArgs& args, double grad_factor)
      : factor(T(args.maximize ? -grad_factor : grad_factor)),
        shrink(args.decoupled ? T(1 - args.lr * args.weight_decay) : T(1)),
        l2(args.decoupled ? T(0) : T(args.weight_decay)) {}
  template <class Rule>
  WICK_HOST_DEVICE T update(const Rule& rule, T w, T g, T& a, T& b, T& c) const {
    return rule(shrink * w, factor * g + l2 * w, a, b, c);
  }
};

template <class Rule, class T>
struct OptimRecord {
  bool skip;
  Rule rule;
  OptimElement<T> element;
};

/// Sets what the optimizer's momentum is called, if it has one.
template <class Args>
WICK_HOST_DEVICE void set_momentum(Args& args, double value) {
  if constexpr (requires { args.momentum; }) {
    args.momentum = value;
  } else if constexpr (requires { args.beta1; }) {
    args.beta1 = value;
  }
}

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

/// What the first record of a step does to what all of them share.
WICK_HOST_DEVICE void begin_step(const OptimStep& step) {
  if (step.is_first && step.non_finite != nullptr) *step.non_finite = 0;
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
  if constexpr (has_own_decay<Rule>()) record.element.l2 = T(0);
}

/// The parameter that an update works on: its master, unless somebody else changed it.
template <class S>
WICK_HOST_DEVICE float master_of(float master, S param) {
  return S(master).bits == param.bits ? master : static_cast<float>(param);
}

/// Elements stored as S are updated by T.
template <class S, class T>
struct StoredAs {};

/// Calls run(StoredAs<...>()) with how parameters of `dtype` are stored and updated.
template <class Run>
WICK_INLINE void visit_stored(Dtype dtype, const Run& run) {
  switch (dtype) {
    case Dtype::kFloat64: return run(StoredAs<double, double>());
    case Dtype::kFloat16: return run(StoredAs<Half, float>());
    case Dtype::kBFloat16: return run(StoredAs<BFloat16, float>());
    default: return run(StoredAs<float, float>());
  }
}

}  // namespace wick
