#pragma once

#include "wick/kernels/optim_rule.h"

// state: mean square of the gradient, mean square of the update.

namespace wick::rules::adadelta {

struct Args : OptimArgs {
  static constexpr const char* kName = "adadelta_step";
  double rho, eps;
};

template <class T>
struct Rule {
  static constexpr uint32_t kStates = 3;
  T lr, rho, one_minus_rho, eps;
  WICK_HOST_DEVICE Rule(const Args& args, double, double&)
      : lr(T(args.lr)), rho(T(args.rho)), one_minus_rho(T(1 - args.rho)), eps(T(args.eps)) {}
  WICK_HOST_DEVICE T operator()(T w, T d, T& square, T& updates, T&) const {
    square = rho * square + one_minus_rho * d * d;
    const T update = root(updates + eps) / root(square + eps) * d;
    updates = rho * updates + one_minus_rho * update * update;
    return w - lr * update;
  }
};

template <class Run>
WICK_INLINE void choose(const Args&, const Run& run) {
  run(RuleOf<Rule>());
}

}  // namespace wick::rules::adadelta
