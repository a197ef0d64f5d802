#pragma once

#include "wick/kernels/optim_rules.h"

// Optimizers that scale the updates of each tensor by norms. Their rules have, beside what the
// others have (optim_rules.h):
//   measure(w, g, a, b, c, x, y)  before the update: sets x and y to what the element adds to two
//                                 sums over the tensor, and may change the states of kMeasured
//   settle(x, y, own)             takes the sums, and the optimizer's own number, into the rule
// where g is the gradient without weight decay.

namespace wick {

template <class T>
WICK_HOST_DEVICE double squared(T x) {
  return static_cast<double>(x) * static_cast<double>(x);
}

template <class T>
struct Lars {
  static constexpr uint32_t kStates = 1, kMeasured = 0;
  T rate, momentum;
  double lr, trust, decay, eps;
  WICK_HOST_DEVICE Lars(const LarsArgs& args, double, double&)
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

template <class T>
struct Lamb {
  static constexpr uint32_t kStates = 3, kMeasured = 3;
  T beta1, take, beta2, one_minus_beta2, first_size, inverse_root, eps, decay, rate;
  double lr;
  bool adapts;
  WICK_HOST_DEVICE Lamb(const LambArgs& args, double step, double&)
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

template <class T>
struct Novograd {
  static constexpr uint32_t kStates = 1, kMeasured = 0;
  T beta1, take, scale, decay, rate;
  double beta2, root_correction, eps;
  bool starts;
  WICK_HOST_DEVICE Novograd(const NovogradArgs& args, double step, double&)
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

}  // namespace wick
