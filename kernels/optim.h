#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// One parameter in a fused update of many: parameter, gradient and state are dense, of one shape
/// and layout, and float32 or float64 alike. State of rank 0 is float64 and on the CPU, whatever
/// the device of the others: what is made of it goes into a kernel's arguments.
struct OptimTensor {
  View param;
  View grad;
  View state[3];
  int64_t step = 0;  // 1 in the first update
};

/// What all updates know: they see d = grad (-grad with maximize) + weight_decay * w; if decay is
/// decoupled, d is without it and w is multiplied by 1 - lr * weight_decay first.
struct OptimArgs {
  double lr, weight_decay;
  bool maximize, decoupled = false;
};

struct SgdArgs : OptimArgs {
  double momentum, dampening;
  bool nesterov;
};
/// state[0]: momentum buffer, if momentum is not 0.
WICK_KERNEL(sgd_step, (const OptimTensor* tensors, int64_t count, const SgdArgs& args));

struct AdamArgs : OptimArgs {
  double beta1, beta2, eps;
  bool amsgrad = false;
};
/// state: first moment, second moment, and with amsgrad the largest second moment.
WICK_KERNEL(adam_step, (const OptimTensor* tensors, int64_t count, const AdamArgs& args));

/// state: first moment, decaying maximum of |d| + eps.
WICK_KERNEL(adamax_step, (const OptimTensor* tensors, int64_t count, const AdamArgs& args));

/// state: first moment, second moment.
WICK_KERNEL(radam_step, (const OptimTensor* tensors, int64_t count, const AdamArgs& args));

struct NadamArgs : AdamArgs {
  double momentum_decay;
};
/// state: first moment, second moment, and the product of the momenta so far (rank 0).
WICK_KERNEL(nadam_step, (const OptimTensor* tensors, int64_t count, const NadamArgs& args));

struct RmspropArgs : OptimArgs {
  double alpha, eps, momentum;
  bool centered;
};
/// state: mean square, if centered the mean, and if momentum is not 0 its buffer.
WICK_KERNEL(rmsprop_step, (const OptimTensor* tensors, int64_t count, const RmspropArgs& args));

struct AdagradArgs : OptimArgs {
  double lr_decay, eps;
};
/// state[0]: sum of squares.
WICK_KERNEL(adagrad_step, (const OptimTensor* tensors, int64_t count, const AdagradArgs& args));

struct AdadeltaArgs : OptimArgs {
  double rho, eps;
};
/// state: mean square of the gradient, mean square of the update.
WICK_KERNEL(adadelta_step, (const OptimTensor* tensors, int64_t count, const AdadeltaArgs& args));

struct AsgdArgs : OptimArgs {
  double lambd, alpha, t0;
};
/// state: average of the parameter, and the rate of this step (rank 0), which becomes that of the
/// next.
WICK_KERNEL(asgd_step, (const OptimTensor* tensors, int64_t count, const AsgdArgs& args));

}  // namespace wick
