#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// One parameter in a fused update of many: parameter, gradient and state are dense, of one shape
/// and layout, and float32 or float64 alike.
struct OptimTensor {
  View param;
  View grad;
  View state[3];
  int64_t step = 0;  // 1 in the first update
};

struct SgdArgs {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize;
};
/// state[0]: momentum buffer, if momentum is not 0.
WICK_KERNEL(sgd_step, (const OptimTensor* tensors, int64_t count, const SgdArgs& args));

struct AdamArgs {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled, amsgrad, maximize;
};
/// state: first moment, second moment, and with amsgrad the largest second moment.
WICK_KERNEL(adam_step, (const OptimTensor* tensors, int64_t count, const AdamArgs& args));

}  // namespace wick
