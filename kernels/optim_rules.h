#pragma once

#include <math.h>

#include "wick/kernels/clip_rules.h"
#include "wick/kernels/optim.h"

// What each optimizer does to one element, on every device. A rule is made for a tensor, where the
// tensor is, of the arguments, the number of the update (1 is the first) and the optimizer's own
// number; rule(w, d, a, b, c) gives the new parameter, where a, b and c are references to the
// states whose bits are set in Rule::kStates.

namespace wick {

WICK_HOST_DEVICE float root(float x) { return ::sqrtf(x); }
WICK_HOST_DEVICE double root(double x) { return ::sqrt(x); }
WICK_HOST_DEVICE float magnitude(float x) { return ::fabsf(x); }
WICK_HOST_DEVICE double magnitude(double x) { return ::fabs(x); }

/// What is done to parameter and gradient before the rule sees them.
template <class T>
struct OptimElement {
  T factor, shrink, l2;
  /// `grad_factor`: what gradients are multiplied by.
  WICK_HOST_DEVICE OptimElement(const OptimArgs& args, double grad_factor)
      : factor(T(args.maximize ? -grad_factor : grad_factor)),
        shrink(args.decoupled ? T(1 - args.lr * args.weight_decay) : T(1)),
        l2(args.decoupled ? T(0) : T(args.weight_decay)) {}
  template <class Rule>
  WICK_HOST_DEVICE T update(const Rule& rule, T w, T g, T& a, T& b, T& c) const {
    return rule(shrink * w, factor * g + l2 * w, a, b, c);
  }
};

template <class T>
struct PlainSgd {
  static constexpr uint32_t kStates = 0;
  T lr;
  WICK_HOST_DEVICE PlainSgd(const SgdArgs& args, double, double&) : lr(T(args.lr)) {}
  WICK_HOST_DEVICE T operator()(T w, T d, T&, T&, T&) const { return w - lr * d; }
};

template <class T>
struct MomentumSgd {
  static constexpr uint32_t kStates = 1;
  T lr, keep, take, momentum;
  bool nesterov;
  // The first step with momentum copies the gradient into the buffer, whatever the dampening.
  WICK_HOST_DEVICE MomentumSgd(const SgdArgs& args, double, double& steps)
      : lr(T(args.lr)),
        keep(steps == 0 ? T(0) : T(args.momentum)),
        take(steps == 0 ? T(1) : T(1 - args.dampening)),
        momentum(T(args.momentum)),
        nesterov(args.nesterov) {
    steps += 1;
  }
  WICK_HOST_DEVICE T operator()(T w, T d, T& buffer, T&, T&) const {
    buffer = keep * buffer + take * d;
    return w - lr * (nesterov ? d + momentum * buffer : buffer);
  }
};

template <class T, bool kAmsgrad>
struct AdamRule {
  static constexpr uint32_t kStates = kAmsgrad ? 7 : 3;
  T step_size, inverse_root, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  WICK_HOST_DEVICE AdamRule(const AdamArgs& args, double step, double&)
      : beta1(T(args.beta1)),
        one_minus_beta1(T(1 - args.beta1)),
        beta2(T(args.beta2)),
        one_minus_beta2(T(1 - args.beta2)),
        eps(T(args.eps)) {
    step_size = T(args.lr / (1 - ::pow(args.beta1, step)));
    inverse_root = T(1 / ::sqrt(1 - ::pow(args.beta2, step)));
  }
  WICK_HOST_DEVICE T operator()(T w, T d, T& first, T& second, T& largest) const {
    first = beta1 * first + one_minus_beta1 * d;
    second = beta2 * second + one_minus_beta2 * d * d;
    // "Not at most" rather than "larger": NaN stays.
    if constexpr (kAmsgrad) largest = !(second <= largest) ? second : largest;
    const T size = root(kAmsgrad ? largest : second) * inverse_root;
    return w - step_size * first / (size + eps);
  }
};
template <class T>
using PlainAdam = AdamRule<T, false>;
template <class T>
using Amsgrad = AdamRule<T, true>;

template <class T>
struct Adamax {
  static constexpr uint32_t kStates = 3;
  T step_size, beta1, one_minus_beta1, beta2, eps;
  WICK_HOST_DEVICE Adamax(const AdamArgs& args, double step, double&)
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

template <class T>
struct Radam {
  static constexpr uint32_t kStates = 3;
  T step_size, scale, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  bool rectified;
  WICK_HOST_DEVICE Radam(const AdamArgs& args, double step, double&)
      : scale(T(1)),
        beta1(T(args.beta1)),
        one_minus_beta1(T(1 - args.beta1)),
        beta2(T(args.beta2)),
        one_minus_beta2(T(1 - args.beta2)),
        eps(T(args.eps)) {
    const double faded = ::pow(args.beta2, step);
    const double longest = 2 / (1 - args.beta2) - 1;
    const double length = longest - 2 * step * faded / (1 - faded);
    step_size = T(args.lr / (1 - ::pow(args.beta1, step)));
    rectified = length > 5;
    if (rectified) {
      const double variance =
          (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length);
      scale = T(::sqrt(variance) * ::sqrt(1 - faded));
    }
  }
  WICK_HOST_DEVICE T operator()(T w, T d, T& first, T& second, T&) const {
    first = beta1 * first + one_minus_beta1 * d;
    second = beta2 * second + one_minus_beta2 * d * d;
    return w - step_size * first * (rectified ? scale / (root(second) + eps) : T(1));
  }
};

/// The momentum of NAdam in a step.
WICK_HOST_DEVICE double nadam_momentum(const NadamArgs& args, double step) {
  return args.beta1 * (1 - 0.5 * ::pow(0.96, step * args.momentum_decay));
}

template <class T>
struct Nadam {
  static constexpr uint32_t kStates = 3;
  T grad_size, first_size, inverse_root, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  WICK_HOST_DEVICE Nadam(const NadamArgs& args, double step, double& product)
      : beta1(T(args.beta1)),
        one_minus_beta1(T(1 - args.beta1)),
        beta2(T(args.beta2)),
        one_minus_beta2(T(1 - args.beta2)),
        eps(T(args.eps)) {
    const double mu = nadam_momentum(args, step);
    const double next = nadam_momentum(args, step + 1);
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

template <class T, bool kCentered, bool kMomentum>
struct RmspropRule {
  static constexpr uint32_t kStates = 1 | (kCentered ? 2 : 0) | (kMomentum ? 4 : 0);
  T lr, alpha, one_minus_alpha, eps, momentum;
  WICK_HOST_DEVICE RmspropRule(const RmspropArgs& args, double, double&)
      : lr(T(args.lr)),
        alpha(T(args.alpha)),
        one_minus_alpha(T(1 - args.alpha)),
        eps(T(args.eps)),
        momentum(T(args.momentum)) {}
  WICK_HOST_DEVICE T operator()(T w, T d, T& square, T& mean, T& buffer) const {
    square = alpha * square + one_minus_alpha * d * d;
    T variance = square;
    if constexpr (kCentered) {
      mean = alpha * mean + one_minus_alpha * d;
      variance -= mean * mean;
      variance = variance < T(0) ? T(0) : variance;  // rounding; the root would be NaN
    }
    const T update = d / (root(variance) + eps);
    if constexpr (!kMomentum) return w - lr * update;
    buffer = momentum * buffer + update;
    return w - lr * buffer;
  }
};
template <class T>
using Rmsprop = RmspropRule<T, false, false>;
template <class T>
using CenteredRmsprop = RmspropRule<T, true, false>;
template <class T>
using MomentumRmsprop = RmspropRule<T, false, true>;
template <class T>
using CenteredMomentumRmsprop = RmspropRule<T, true, true>;

template <class T>
struct Adagrad {
  static constexpr uint32_t kStates = 1;
  T lr, eps;
  WICK_HOST_DEVICE Adagrad(const AdagradArgs& args, double step, double&)
      : lr(T(args.lr / (1 + (step - 1) * args.lr_decay))), eps(T(args.eps)) {}
  WICK_HOST_DEVICE T operator()(T w, T d, T& sum, T&, T&) const {
    sum += d * d;
    return w - lr * d / (root(sum) + eps);
  }
};

template <class T>
struct Adadelta {
  static constexpr uint32_t kStates = 3;
  T lr, rho, one_minus_rho, eps;
  WICK_HOST_DEVICE Adadelta(const AdadeltaArgs& args, double, double&)
      : lr(T(args.lr)), rho(T(args.rho)), one_minus_rho(T(1 - args.rho)), eps(T(args.eps)) {}
  WICK_HOST_DEVICE T operator()(T w, T d, T& square, T& updates, T&) const {
    square = rho * square + one_minus_rho * d * d;
    const T update = root(updates + eps) / root(square + eps) * d;
    updates = rho * updates + one_minus_rho * update * update;
    return w - lr * update;
  }
};

template <class T>
struct Asgd {
  static constexpr uint32_t kStates = 1;
  T rate, keep, share;
  WICK_HOST_DEVICE Asgd(const AsgdArgs& args, double step, double& next_rate) {
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

}  // namespace wick
