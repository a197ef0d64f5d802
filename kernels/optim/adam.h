#pragma once

#include "wick/kernels/optim_rule.h"

// state: first moment, second moment, and with amsgrad the largest second moment.

namespace wick::rules::adam {

struct Args : OptimArgs {
  static constexpr const char* kName = "adam_step";
  double beta1, beta2, eps;
  bool amsgrad = false;
};

template <class T, bool kAmsgrad>
struct Rule {
  static constexpr uint32_t kStates = kAmsgrad ? 7 : 3;
  T step_size, inverse_root, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  WICK_HOST_DEVICE Rule(const Args& args, double step, double&)
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
using Plain = Rule<T, false>;
template <class T>
using Amsgrad = Rule<T, true>;

template <class Run>
WICK_INLINE void choose(const Args& args, const Run& run) {
  if (args.amsgrad) return run(RuleOf<Amsgrad>());
  run(RuleOf<Plain>());
}

}  // namespace wick::rules::adam
