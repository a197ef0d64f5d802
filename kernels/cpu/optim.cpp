#include "wick/kernels/cpu/optim_loop.h"

namespace wick::WICK_ISA {

namespace {

template <class T>
struct PlainSgd {
  static constexpr uint32_t kStates = 0;
  T lr;
  PlainSgd(const SgdArgs& args, const OptimTensor&) : lr(T(args.lr)) {}
  T operator()(T w, T d, T&, T&, T&) const { return w - lr * d; }
};

template <class T>
struct MomentumSgd {
  static constexpr uint32_t kStates = 1;
  T lr, keep, take, momentum;
  bool nesterov;
  // The first step copies the gradient into the buffer, whatever the dampening.
  MomentumSgd(const SgdArgs& args, const OptimTensor& tensor)
      : lr(T(args.lr)),
        keep(tensor.step == 1 ? T(0) : T(args.momentum)),
        take(tensor.step == 1 ? T(1) : T(1 - args.dampening)),
        momentum(T(args.momentum)),
        nesterov(args.nesterov) {}
  T operator()(T w, T d, T& buffer, T&, T&) const {
    buffer = keep * buffer + take * d;
    return w - lr * (nesterov ? d + momentum * buffer : buffer);
  }
};

template <class T, bool kAmsgrad>
struct AdamRule {
  static constexpr uint32_t kStates = kAmsgrad ? 7 : 3;
  T step_size, inverse_root, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  AdamRule(const AdamArgs& args, const OptimTensor& tensor)
      : beta1(T(args.beta1)),
        one_minus_beta1(T(1 - args.beta1)),
        beta2(T(args.beta2)),
        one_minus_beta2(T(1 - args.beta2)),
        eps(T(args.eps)) {
    const double step = static_cast<double>(tensor.step);
    step_size = T(args.lr / (1 - ::pow(args.beta1, step)));
    inverse_root = T(1 / ::sqrt(1 - ::pow(args.beta2, step)));
  }
  T operator()(T w, T d, T& first, T& second, T& largest) const {
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

}  // namespace

void sgd_step(const OptimTensor* tensors, int64_t count, const SgdArgs& args) {
  if (args.momentum == 0) return update_all<PlainSgd>(tensors, count, args);
  update_all<MomentumSgd>(tensors, count, args);
}

void adam_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args) {
  if (args.amsgrad) return update_all<Amsgrad>(tensors, count, args);
  update_all<PlainAdam>(tensors, count, args);
}

}  // namespace wick::WICK_ISA
