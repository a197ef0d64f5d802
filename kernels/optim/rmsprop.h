#pragma once

#include "wick/kernels/optim_rule.h"

// state: mean square, if centered the mean, and if momentum is not 0 its buffer.

namespace wick::rules::rmsprop {

struct Args : OptimArgs {
  static constexpr const char* kName = "rmsprop_step";
  double alpha, eps, momentum;
  bool centered;
};

template <class T, bool kCentered, bool kMomentum>
struct Rule {
  static constexpr uint32_t kStates = 1 | (kCentered ? 2 : 0) | (kMomentum ? 4 : 0);
  T lr, alpha, one_minus_alpha, eps, momentum;
  WICK_HOST_DEVICE Rule(const Args& args, double, double&)
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
using Plain = Rule<T, false, false>;
template <class T>
using Centered = Rule<T, true, false>;
template <class T>
using Momentum = Rule<T, false, true>;
template <class T>
using CenteredMomentum = Rule<T, true, true>;

template <class Run>
WICK_INLINE void choose(const Args& args, const Run& run) {
  if (args.centered && args.momentum != 0) return run(RuleOf<CenteredMomentum>());
  if (args.centered) return run(RuleOf<Centered>());
  if (args.momentum != 0) return run(RuleOf<Momentum>());
  run(RuleOf<Plain>());
}

}  // namespace wick::rules::rmsprop
