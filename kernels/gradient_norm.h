#pragma once

#include "wick/kernels/clip.h"

namespace wick {

/// What the norm is made of, and where results go, on the gradients' device; null where not wanted.
struct GradientNormArgs {
  const float* scale = nullptr;  // gradients are divided by it
  bool unscale = false;          // in place too
  double* partial = nullptr;     // two for each chunk (kGradNormChunk) of each gradient
  double* norm = nullptr;        // root of the sum of the squares of all elements, divided
  float* found_inf = nullptr;    // 1 if an element is not finite, else 0
  float* any_inf = nullptr;      // 1 if an element is not finite, else as it was
  int64_t* first = nullptr;      // number of the first chunk with such an element, else -1
};

/// The 2-norm of `count` dense floating gradients of one device and whether all elements are
/// finite, in one pass that also unscales them.
WICK_KERNEL(gradient_norm, (const View* grads, int64_t count, const GradientNormArgs& args));

/// What a gradient scaler keeps on its device, and how it changes.
struct GradScaleUpdate {
  float* scale;
  int32_t* growth_tracker;
  float* any_inf;                 // becomes 0
  int64_t* counts;                // 2: steps skipped in a row, and updates so far
  double growth, backoff, floor;  // PyTorch's: products are rounded to float32 once
  int32_t interval;
};

/// The scale after a step: times `backoff`, but not below `floor`, if any_inf is not 0; times
/// `growth`, if that is finite, after each `interval` steps without.
WICK_KERNEL(grad_scale_update, (Device device, const GradScaleUpdate& update));

}  // namespace wick
