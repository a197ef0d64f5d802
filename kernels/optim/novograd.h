#pragma once

#include "wick/kernels/optim_rule.h"

// state: first moment. Its own number: the second moment of the gradient's norm.

namespace wick::rules::novograd {

struct Args : OptimArgs {
  static constexpr const char* kName = "novograd_step";
  double beta1, beta2, eps;
  bool bias_correction, grad_averaging, init_zero;
};

template <class T>
struct Rule {
  static constexpr uint32_t kStates = 1, kMeasured = 0;
  static constexpr bool kOwnDecay = true;
  T beta1, take, scale, decay, rate;
  double beta2, root_correction, eps;
  bool starts;
  WICK_HOST_DEVICE Rule(const Args& args, double step, double&)
      : beta1(T(args.beta1)),
        take(T(args.grad_averaging ? 1 - args.beta1 : 1)),
        scale(T(0)),
        decay(T(args.decoupled ? 0 : args.weight_decay)),
        rate(T(args.lr / (args.bias_correction ? 1 - ::pow(args.beta1, step) : 1))),
        beta2(args.beta2),
        root_correction(args.bias_correction ? ::sqrt(1 - ::pow(args.beta2, step)) : 1),
        eps(args.eps),
        starts(step == 1 && !args.init_zero) {}
  WICK_HOST_DEVICE void measure(T, T g, T&, T&, T&, double& x, double& y) const {
    x = 0;
    y = squared(g);
  }
  WICK_HOST_DEVICE void settle(double, double y, double& second) {
    second = starts ? y : beta2 * second + (1 - beta2) * y;
    const double size = ::sqrt(second) / root_correction + eps;
    scale = T(size > 0 || size != size ? 1 / size : 0);
  }
  // Its gradient is scaled before decay joins it.
  WICK_HOST_DEVICE T operator()(T w, T g, T& first, T&, T&) const {
    first = beta1 * first + take * (scale * g + decay * w);
    return w - rate * first;
  }
};

template <class Run>
WICK_INLINE void choose(const Args&, const Run& run) {
  run(RuleOf<Rule>());
}

}  // namespace wick::rules::novograd
