#pragma once

#include "wick/kernels/optim_rule.h"

// state: first moment, decaying maximum of |d| + eps.

namespace wick::rules::adamax {

struct Args : OptimArgs {
  static constexpr const char* kName = "adamax_step";
  double beta1, beta2, eps;
};

template <class T>
struct Rule {
  static constexpr uint32_t kStates = 3;
  T step_size, beta1, one_minus_beta1, beta2, eps;
  WICK_HOST_DEVICE Rule(const Args& args, double step, double&)
      : step_size(T(args.lr / (1 - ::pow(args.beta1, step)))),
        beta1(T(args.beta1)),
        one_minus_beta1(T(1 - args.beta1)),
        beta2(T(args.beta2)),
        eps(T(args.eps)) {}
  WICK_HOST_DEVICE T operator()(T w, T d, T& first, T& largest, T&) const {
    first = beta1 * first + one_minus_beta1 * d;
    const T faded = beta2 * largest, now = magnitude(d) + eps;
    largest = faded > now || faded != faded ? faded : now;
    return w - step_size * first / largest;
  }
};

template <class Run>
WICK_INLINE void choose(const Args&, const Run& run) {
  run(RuleOf<Rule>());
}

}  // namespace wick::rules::adamax
