#pragma once

#include "wick/kernels/optim_rule.h"

// state: sum of squares.

namespace wick::rules::adagrad {

struct Args : OptimArgs {
  static constexpr const char* kName = "adagrad_step";
  double lr_decay, eps;
};

template <class T>
struct Rule {
  static constexpr uint32_t kStates = 1;
  T lr, eps;
  WICK_HOST_DEVICE Rule(const Args& args, double step, double&)
      : lr(T(args.lr / (1 + (step - 1) * args.lr_decay))), eps(T(args.eps)) {}
  WICK_HOST_DEVICE T operator()(T w, T d, T& sum, T&, T&) const {
    sum += d * d;
    return w - lr * d / (root(sum) + eps);
  }
};

template <class Run>
WICK_INLINE void choose(const Args&, const Run& run) {
  run(RuleOf<Rule>());
}

}  // namespace wick::rules::adagrad
