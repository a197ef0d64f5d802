#pragma once

#include "wick/kernels/optim_rule.h"

// state: first moment, second moment.

namespace wick::rules::lamb {

struct Args : OptimArgs {
  static constexpr const char* kName = "lamb_step";
  double beta1, beta2, eps;
  bool bias_correction, grad_averaging, adapt_all;
};

template <class T>
struct Rule {
  static constexpr uint32_t kStates = 3, kMeasured = 3;
  static constexpr bool kOwnDecay = true;
  T beta1, take, beta2, one_minus_beta2, first_size, inverse_root, eps, decay, rate;
  double lr;
  bool adapts;
  WICK_HOST_DEVICE Rule(const Args& args, double step, double&)
      : beta1(T(args.beta1)),
        take(T(args.grad_averaging ? 1 - args.beta1 : 1)),
        beta2(T(args.beta2)),
        one_minus_beta2(T(1 - args.beta2)),
        first_size(T(args.bias_correction ? 1 / (1 - ::pow(args.beta1, step)) : 1)),
        inverse_root(T(args.bias_correction ? 1 / ::sqrt(1 - ::pow(args.beta2, step)) : 1)),
        eps(T(args.eps)),
        decay(T(args.weight_decay)),
        rate(T(args.lr)),
        lr(args.lr),
        adapts(args.adapt_all || args.weight_decay != 0) {}
  WICK_HOST_DEVICE T direction(T w, T first, T second) const {
    return first_size * first / (root(second) * inverse_root + eps) + decay * w;
  }
  WICK_HOST_DEVICE void measure(T w, T g, T& first, T& second, T&, double& x, double& y) const {
    first = beta1 * first + take * g;
    second = beta2 * second + one_minus_beta2 * g * g;
    x = squared(w);
    y = squared(direction(w, first, second));
  }
  WICK_HOST_DEVICE void settle(double x, double y, double&) {
    if (adapts && x != 0 && y != 0) rate = T(lr * ::sqrt(x) / ::sqrt(y));
  }
  WICK_HOST_DEVICE T operator()(T w, T, T& first, T& second, T&) const {
    return w - rate * direction(w, first, second);
  }
};

template <class Run>
WICK_INLINE void choose(const Args&, const Run& run) {
  run(RuleOf<Rule>());
}

}  // namespace wick::rules::lamb
