#pragma once

#include "wick/kernels/optim_rule.h"

// state: momentum buffer.

namespace wick::rules::lars {

struct Args : OptimArgs {
  static constexpr const char* kName = "lars_step";
  double momentum, trust_coefficient, eps;
};

template <class T>
struct Rule {
  static constexpr uint32_t kStates = 1, kMeasured = 0;
  T rate, momentum;
  double lr, trust, decay, eps;
  WICK_HOST_DEVICE Rule(const Args& args, double, double&)
      : rate(T(args.lr)),
        momentum(T(args.momentum)),
        lr(args.lr),
        trust(args.trust_coefficient),
        decay(args.decoupled ? 0 : args.weight_decay),
        eps(args.eps) {}
  WICK_HOST_DEVICE void measure(T w, T g, T&, T&, T&, double& x, double& y) const {
    x = squared(w);
    y = squared(g);
  }
  WICK_HOST_DEVICE void settle(double x, double y, double&) {
    const double size = ::sqrt(x), slope = ::sqrt(y);
    if (trust == 0 || size == 0 || slope == 0) return;
    rate = T(lr * trust * size / (slope + decay * size + eps));
  }
  WICK_HOST_DEVICE T operator()(T w, T d, T& buffer, T&, T&) const {
    buffer = momentum * buffer + rate * d;
    return w - buffer;
  }
};

template <class Run>
WICK_INLINE void choose(const Args&, const Run& run) {
  run(RuleOf<Rule>());
}

}  // namespace wick::rules::lars
