#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// One parameter in a fused update of many. Parameter, gradient and state are dense, of one shape
/// and layout. State is float64 with a float64 parameter, else float32; gradients are of the
/// parameter's dtype. A float16 or bfloat16 parameter is the rounded `master`, which the update
/// works on. A parameter that differs from its master was changed elsewhere, and the parameter
/// counts.
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
  bool skip_non_finite = false;   // unless grad_norm is finite, the step changes nothing
  int32_t* non_finite = nullptr;  // becomes 1 if a parameter is not finite behind the step
  bool is_first = false;          // and 0 before
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

}  // namespace wick
