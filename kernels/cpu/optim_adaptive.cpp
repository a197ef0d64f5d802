#include "wick/kernels/cpu/optim_loop.h"

namespace wick::WICK_ISA {

namespace {

template <class T>
struct Adamax {
  static constexpr uint32_t kStates = 3;
  T step_size, beta1, one_minus_beta1, beta2, eps;
  Adamax(const AdamArgs& args, const OptimTensor& tensor)
      : step_size(T(args.lr / (1 - ::pow(args.beta1, static_cast<double>(tensor.step))))),
        beta1(T(args.beta1)),
        one_minus_beta1(T(1 - args.beta1)),
        beta2(T(args.beta2)),
        eps(T(args.eps)) {}
  T operator()(T w, T d, T& first, T& largest, T&) const {
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
  Radam(const AdamArgs& args, const OptimTensor& tensor)
      : scale(T(1)),
        beta1(T(args.beta1)),
        one_minus_beta1(T(1 - args.beta1)),
        beta2(T(args.beta2)),
        one_minus_beta2(T(1 - args.beta2)),
        eps(T(args.eps)) {
    const double step = static_cast<double>(tensor.step);
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
  T operator()(T w, T d, T& first, T& second, T&) const {
    first = beta1 * first + one_minus_beta1 * d;
    second = beta2 * second + one_minus_beta2 * d * d;
    return w - step_size * first * (rectified ? scale / (root(second) + eps) : T(1));
  }
};

double nadam_momentum(const NadamArgs& args, int64_t step) {
  return args.beta1 * (1 - 0.5 * ::pow(0.96, static_cast<double>(step) * args.momentum_decay));
}

template <class T>
struct Nadam {
  static constexpr uint32_t kStates = 3;
  T grad_size, first_size, inverse_root, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
  Nadam(const NadamArgs& args, const OptimTensor& tensor)
      : beta1(T(args.beta1)),
        one_minus_beta1(T(1 - args.beta1)),
        beta2(T(args.beta2)),
        one_minus_beta2(T(1 - args.beta2)),
        eps(T(args.eps)) {
    const double mu = nadam_momentum(args, tensor.step);
    const double next = nadam_momentum(args, tensor.step + 1);
    const double product = *tensor.state[2].as<double>();
    grad_size = T(args.lr * (1 - mu) / (1 - product));
    first_size = T(args.lr * next / (1 - product * mu * next));
    inverse_root = T(1 / ::sqrt(1 - ::pow(args.beta2, static_cast<double>(tensor.step))));
  }
  T operator()(T w, T d, T& first, T& second, T&) const {
    first = beta1 * first + one_minus_beta1 * d;
    second = beta2 * second + one_minus_beta2 * d * d;
    return w - (grad_size * d + first_size * first) / (root(second) * inverse_root + eps);
  }
};

template <class T, bool kCentered, bool kMomentum>
struct RmspropRule {
  static constexpr uint32_t kStates = 1 | (kCentered ? 2 : 0) | (kMomentum ? 4 : 0);
  T lr, alpha, one_minus_alpha, eps, momentum;
  RmspropRule(const RmspropArgs& args, const OptimTensor&)
      : lr(T(args.lr)),
        alpha(T(args.alpha)),
        one_minus_alpha(T(1 - args.alpha)),
        eps(T(args.eps)),
        momentum(T(args.momentum)) {}
  T operator()(T w, T d, T& square, T& mean, T& buffer) const {
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
  Adagrad(const AdagradArgs& args, const OptimTensor& tensor)
      : lr(T(args.lr / (1 + static_cast<double>(tensor.step - 1) * args.lr_decay))),
        eps(T(args.eps)) {}
  T operator()(T w, T d, T& sum, T&, T&) const {
    sum += d * d;
    return w - lr * d / (root(sum) + eps);
  }
};

template <class T>
struct Adadelta {
  static constexpr uint32_t kStates = 3;
  T lr, rho, one_minus_rho, eps;
  Adadelta(const AdadeltaArgs& args, const OptimTensor&)
      : lr(T(args.lr)), rho(T(args.rho)), one_minus_rho(T(1 - args.rho)), eps(T(args.eps)) {}
  T operator()(T w, T d, T& square, T& updates, T&) const {
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
  Asgd(const AsgdArgs& args, const OptimTensor& tensor) {
    const double eta = *tensor.state[1].as<double>();
    const double averaged = static_cast<double>(tensor.step - 1) - args.t0;
    rate = T(eta);
    keep = T(1 - args.lambd * eta);
    share = T(averaged > 1 ? 1 / averaged : 1);
  }
  T operator()(T w, T d, T& average, T&, T&) const {
    const T next = keep * w - rate * d;
    average = share == T(1) ? next : average + (next - average) * share;
    return next;
  }
};

}  // namespace

void adamax_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args) {
  update_all<Adamax>(tensors, count, args);
}

void radam_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args) {
  update_all<Radam>(tensors, count, args);
}

void nadam_step(const OptimTensor* tensors, int64_t count, const NadamArgs& args) {
  for (int64_t i = 0; i < count; ++i) {
    *tensors[i].state[2].as<double>() *= nadam_momentum(args, tensors[i].step);
  }
  update_all<Nadam>(tensors, count, args);
}

void rmsprop_step(const OptimTensor* tensors, int64_t count, const RmspropArgs& args) {
  if (args.centered && args.momentum != 0) {
    return update_all<CenteredMomentumRmsprop>(tensors, count, args);
  }
  if (args.centered) return update_all<CenteredRmsprop>(tensors, count, args);
  if (args.momentum != 0) return update_all<MomentumRmsprop>(tensors, count, args);
  update_all<Rmsprop>(tensors, count, args);
}

void adagrad_step(const OptimTensor* tensors, int64_t count, const AdagradArgs& args) {
  update_all<Adagrad>(tensors, count, args);
}

void adadelta_step(const OptimTensor* tensors, int64_t count, const AdadeltaArgs& args) {
  update_all<Adadelta>(tensors, count, args);
}

void asgd_step(const OptimTensor* tensors, int64_t count, const AsgdArgs& args) {
  update_all<Asgd>(tensors, count, args);
  for (int64_t i = 0; i < count; ++i) {
    const double step = static_cast<double>(tensors[i].step);
    *tensors[i].state[1].as<double>() =
        args.lr / ::pow(1 + args.lambd * args.lr * step, args.alpha);
  }
}

}  // namespace wick::WICK_ISA
