#pragma once

#include <cstdint>

#include "wick/kernels/declare.h"

// Elementwise functors one after another on tiles that stay in the cache, so that what passes from
// one to the next never goes to memory. On the CPU: the functors' own loops are called tile by
// tile.
namespace wick {

/// The call of an elementwise kernel, as it was asked for.
struct ElementwiseCall {
  static constexpr int kMaxInputs = 3;
  void (*loop)(const void* f, void* y, const void* const* x, int64_t n);
  const void* functor;
  Dtype compute;  // the computing type's dtype
  int arity;
  View y;
  View x[kMaxInputs];
};

/// While a thread has one, elementwise kernels note their calls there and compute nothing.
struct ElementwiseCapture {
  int count = 0;
  ElementwiseCall last{};
};

/// This thread's; null if there is none.
ElementwiseCapture*& elementwise_capture();

/// Elementwise functors that run as one. All views are of one shape, or broadcast to it.
struct ElementwiseChain {
  static constexpr int kMaxViews = 16;
  static constexpr int kMaxSteps = 48;
  static constexpr int kMaxSlots = 12;

  /// Where a step finds an input: in view `view`, or where that is -1 as the result in `slot`. It
  /// is of `dtype`; if that is not the computing dtype, or the view is not dense, it is brought to
  /// slot `converted` first.
  struct Source {
    int view = -1;
    int slot = -1;
    int converted = -1;
    Dtype dtype = Dtype::kFloat32;
  };
  struct Step {
    void (*loop)(const void* f, void* y, const void* const* x, int64_t n) = nullptr;
    const void* functor = nullptr;
    Dtype compute = Dtype::kFloat32;  // float64, float32 or int64
    Dtype dtype = Dtype::kFloat32;    // of the result
    int arity = 0;
    Source x[ElementwiseCall::kMaxInputs];
    int slot = -1;      // where the result goes
    int computed = -1;  // where it is computed, if it is converted after that
    int view = -1;      // the result that it is; -1 if it only passes on
  };

  int num_results = 0;  // views [0, num_results) are written, which are dense; the others are read
  int num_views = 0;
  int num_steps = 0;
  Step steps[kMaxSteps];
};

/// Runs the chain on `views`, of which those of the results come first.
namespace cpu_avx2 {
void elementwise_chain(const ElementwiseChain& chain, const View* views);
}
namespace cpu_avx512 {
void elementwise_chain(const ElementwiseChain& chain, const View* views);
}

}  // namespace wick
