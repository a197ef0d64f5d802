#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// Elements whose powers are added up before they join the total.
inline constexpr int64_t kGradNormChunk = 16384;

// Gradients are dense and floating.

/// total (rank 0, float32 or float64) = p-norm of all elements of all gradients, p neither 0 nor
/// -infinity; of p = infinity the largest absolute value. `partial` (float64): one element per
/// chunk of each gradient.
WICK_KERNEL(grad_p_norm,
            (const View* grads, int64_t count, double p, const View& partial, const View& total));

/// Multiplies all gradients by min(1, max_norm / (total + 1e-6)).
WICK_KERNEL(grad_clip_norm, (const View* grads, int64_t count, const View& total, double max_norm));

/// Clamps all elements to [-limit, limit]; NaN stays.
WICK_KERNEL(grad_clip_value, (const View* grads, int64_t count, double limit));

}  // namespace wick
