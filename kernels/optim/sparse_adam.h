#pragma once

#include "wick/kernels/optim_rule.h"

// state: first moment, second moment.

namespace wick::rules::sparse_adam {

struct Args : OptimArgs {
  static constexpr const char* kName = "sparse_adam_step";
  double beta1, beta2, eps;
};

template <class T>
struct Rule {
  static constexpr uint32_t kStates = 3;
  T step_size, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  WICK_HOST_DEVICE Rule(const Args& args, double step, double&)
      : beta1(T(args.beta1)),
        one_minus_beta1(T(1 - args.beta1)),
        beta2(T(args.beta2)),
        one_minus_beta2(T(1 - args.beta2)),
        eps(T(args.eps)) {
    step_size = T(args.lr * ::sqrt(1 - ::pow(args.beta2, step)) / (1 - ::pow(args.beta1, step)));
  }
  WICK_HOST_DEVICE T operator()(T w, T d, T& first, T& second, T&) const {
    first = beta1 * first + one_minus_beta1 * d;
    second = beta2 * second + one_minus_beta2 * d * d;
    return w - step_size * first / (root(second) + eps);
  }
};

template <class Run>
WICK_INLINE void choose(const Args&, const Run& run) {
  run(RuleOf<Rule>());
}

}  // namespace wick::rules::sparse_adam
