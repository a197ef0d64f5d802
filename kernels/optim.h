#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// One parameter in a fused update of many. Parameter, gradient and state are dense, of one shape
/// and layout. State is float64 with a float64 parameter, else float32; gradients are of the
/// parameter's dtype. A float16 or bfloat16 parameter is the rounded `master`, which the update
/// works on; where it is not, somebody else changed it, and it counts.
struct OptimTensor {
  View param;
  View grad;
  View state[3];
  View master;  // float32, with 16-bit parameters
  /// Two numbers on the tensors' device, 0 at first: updates so far, and what the optimizer keeps
  /// of its own.
  double* numbers = nullptr;
};

/// What all updates know: they see d = grad (-grad with maximize) + weight_decay * w; if decay is
/// decoupled, d is without it and w is multiplied by 1 - lr * weight_decay first.
struct OptimArgs {
  double lr, weight_decay;
  bool maximize, decoupled = false;
};

/// What a step reads on the tensors' device, all of it optional: null where it is not wanted.
struct OptimStep {
  const double* rates = nullptr;      // learning rate and momentum (or beta1) in place of Args'
  const float* grad_scale = nullptr;  // gradients are divided by it
  const float* found_inf = nullptr;   // unless 0, the step changes nothing
  const double* grad_norm = nullptr;  // of all gradients, divided; they are clipped to max_norm
  double max_norm = 0;
  bool skip_non_finite = false;  // unless grad_norm is finite, the step changes nothing
  /// optim_scratch_bytes() of memory.
  void* scratch = nullptr;
};

/// Room for what is made of the arguments for one tensor.
inline constexpr int64_t kOptimRecordBytes = 192;
/// The least number of elements whose sums are kept apart.
inline constexpr int64_t kOptimChunk = 4096;

/// `tensors` of a step need this much scratch memory.
inline int64_t optim_scratch_bytes(const OptimTensor* tensors, int64_t count) {
  int64_t chunks = 0;
  for (int64_t i = 0; i < count; ++i) {
    chunks += (tensors[i].param.numel() + kOptimChunk - 1) / kOptimChunk;
  }
  return count * kOptimRecordBytes + chunks * 2 * static_cast<int64_t>(sizeof(double));
}

// The tensors of one call are of one device and dtype.

struct SgdArgs : OptimArgs {
  double momentum, dampening;
  bool nesterov;
};
/// state[0]: momentum buffer, if momentum is not 0.
WICK_KERNEL(sgd_step, (const OptimTensor* tensors, int64_t count, const SgdArgs& args,
                       const OptimStep& step));

struct AdamArgs : OptimArgs {
  double beta1, beta2, eps;
  bool amsgrad = false;
};
/// state: first moment, second moment, and with amsgrad the largest second moment.
WICK_KERNEL(adam_step, (const OptimTensor* tensors, int64_t count, const AdamArgs& args,
                        const OptimStep& step));

/// state: first moment, decaying maximum of |d| + eps.
WICK_KERNEL(adamax_step, (const OptimTensor* tensors, int64_t count, const AdamArgs& args,
                          const OptimStep& step));

/// state: first moment, second moment.
WICK_KERNEL(radam_step, (const OptimTensor* tensors, int64_t count, const AdamArgs& args,
                         const OptimStep& step));

struct NadamArgs : AdamArgs {
  double momentum_decay;
};
/// state: first moment, second moment. Its own number: the product of the momenta so far.
WICK_KERNEL(nadam_step, (const OptimTensor* tensors, int64_t count, const NadamArgs& args,
                         const OptimStep& step));

struct RmspropArgs : OptimArgs {
  double alpha, eps, momentum;
  bool centered;
};
/// state: mean square, if centered the mean, and if momentum is not 0 its buffer.
WICK_KERNEL(rmsprop_step, (const OptimTensor* tensors, int64_t count, const RmspropArgs& args,
                           const OptimStep& step));

struct AdagradArgs : OptimArgs {
  double lr_decay, eps;
};
/// state[0]: sum of squares.
WICK_KERNEL(adagrad_step, (const OptimTensor* tensors, int64_t count, const AdagradArgs& args,
                           const OptimStep& step));

struct AdadeltaArgs : OptimArgs {
  double rho, eps;
};
/// state: mean square of the gradient, mean square of the update.
WICK_KERNEL(adadelta_step, (const OptimTensor* tensors, int64_t count, const AdadeltaArgs& args,
                            const OptimStep& step));

struct AsgdArgs : OptimArgs {
  double lambd, alpha, t0;
};
/// state: average of the parameter. Its own number: the rate of the next step.
WICK_KERNEL(asgd_step, (const OptimTensor* tensors, int64_t count, const AsgdArgs& args,
                        const OptimStep& step));

struct LarsArgs : OptimArgs {
  double momentum, trust_coefficient, eps;
};
/// state: momentum buffer.
WICK_KERNEL(lars_step, (const OptimTensor* tensors, int64_t count, const LarsArgs& args,
                        const OptimStep& step));

struct LambArgs : AdamArgs {
  bool bias_correction, grad_averaging, adapt_all;
};
/// state: first moment, second moment.
WICK_KERNEL(lamb_step, (const OptimTensor* tensors, int64_t count, const LambArgs& args,
                        const OptimStep& step));

struct NovogradArgs : AdamArgs {
  bool bias_correction, grad_averaging, init_zero;
};
/// state: first moment. Its own number: the second moment of the gradient's norm.
WICK_KERNEL(novograd_step, (const OptimTensor* tensors, int64_t count, const NovogradArgs& args,
                            const OptimStep& step));

}  // namespace wick
