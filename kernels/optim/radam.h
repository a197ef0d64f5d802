#pragma once

#include "wick/kernels/optim_rule.h"

// state: first moment, second moment.

namespace wick::rules::radam {

struct Args : OptimArgs {
  static constexpr const char* kName = "radam_step";
  double beta1, beta2, eps;
};

template <class T>
struct Rule {
  static constexpr uint32_t kStates = 3;
  T step_size, scale, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  bool rectified;
  WICK_HOST_DEVICE Rule(const Args& args, double step, double&)
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

template <class Run>
WICK_INLINE void choose(const Args&, const Run& run) {
  run(RuleOf<Rule>());
}

}  // namespace wick::rules::radam
