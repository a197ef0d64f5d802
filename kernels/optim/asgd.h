#pragma once

#include "wick/kernels/optim_rule.h"

// state: average of the parameter. Its own number: the rate of the next step.

namespace wick::rules::asgd {

struct Args : OptimArgs {
  static constexpr const char* kName = "asgd_step";
  double lambd, alpha, t0;
};

template <class T>
struct Rule {
  static constexpr uint32_t kStates = 1;
  T rate, keep, share;
  WICK_HOST_DEVICE Rule(const Args& args, double step, double& next_rate) {
    const double eta = step == 1 ? args.lr : next_rate;
    next_rate = args.lr / ::pow(1 + args.lambd * args.lr * step, args.alpha);
    const double averaged = step - 1 - args.t0;
    rate = T(eta);
    keep = T(1 - args.lambd * eta);
    share = T(averaged > 1 ? 1 / averaged : 1);
  }
  WICK_HOST_DEVICE T operator()(T w, T d, T& average, T&, T&) const {
    const T next = keep * w - rate * d;
    average = share == T(1) ? next : average + (next - average) * share;
    return next;
  }
};

template <class Run>
WICK_INLINE void choose(const Args&, const Run& run) {
  run(RuleOf<Rule>());
}

}  // namespace wick::rules::asgd
