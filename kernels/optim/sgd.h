#pragma once

#include "wick/kernels/optim_rule.h"

// state[0]: momentum buffer, if momentum is not 0. Its own number: steps with momentum so far.

namespace wick::rules::sgd {

struct Args : OptimArgs {
  static constexpr const char* kName = "sgd_step";
  double momentum, dampening;
  bool nesterov;
};

template <class T>
struct Plain {
  static constexpr uint32_t kStates = 0;
  T lr;
  WICK_HOST_DEVICE Plain(const Args& args, double, double&) : lr(T(args.lr)) {}
  WICK_HOST_DEVICE T operator()(T w, T d, T&, T&, T&) const { return w - lr * d; }
};

template <class T>
struct Momentum {
  static constexpr uint32_t kStates = 1;
  T lr, keep, take, momentum;
  bool nesterov;
  // The first step with momentum copies the gradient into the buffer, whatever the dampening.
  WICK_HOST_DEVICE Momentum(const Args& args, double, double& steps)
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

template <class Run>
WICK_INLINE void choose(const Args& args, const Run& run) {
  if (args.momentum == 0) return run(RuleOf<Plain>());
  run(RuleOf<Momentum>());
}

}  // namespace wick::rules::sgd
