#pragma once

#include "wick/kernels/optim_rule.h"

// state: first moment, second moment. Its own number: the product of the momenta so far.

namespace wick::rules::nadam {

struct Args : OptimArgs {
  static constexpr const char* kName = "nadam_step";
  double beta1, beta2, eps, momentum_decay;
};

/// The momentum in a step.
WICK_HOST_DEVICE double momentum_at(const Args& args, double step) {
  return args.beta1 * (1 - 0.5 * ::pow(0.96, step * args.momentum_decay));
}

template <class T>
struct Rule {
  static constexpr uint32_t kStates = 3;
  T grad_size, first_size, inverse_root, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  WICK_HOST_DEVICE Rule(const Args& args, double step, double& product)
      : beta1(T(args.beta1)),
        one_minus_beta1(T(1 - args.beta1)),
        beta2(T(args.beta2)),
        one_minus_beta2(T(1 - args.beta2)),
        eps(T(args.eps)) {
    const double mu = momentum_at(args, step);
    const double next = momentum_at(args, step + 1);
    product = (step == 1 ? 1 : product) * mu;
    grad_size = T(args.lr * (1 - mu) / (1 - product));
    first_size = T(args.lr * next / (1 - product * next));
    inverse_root = T(1 / ::sqrt(1 - ::pow(args.beta2, step)));
  }
  WICK_HOST_DEVICE T operator()(T w, T d, T& first, T& second, T&) const {
    first = beta1 * first + one_minus_beta1 * d;
    second = beta2 * second + one_minus_beta2 * d * d;
    return w - (grad_size * d + first_size * first) / (root(second) * inverse_root + eps);
  }
};

template <class Run>
WICK_INLINE void choose(const Args&, const Run& run) {
  run(RuleOf<Rule>());
}

}  // namespace wick::rules::nadam
