#pragma once

#include <cstdint>
#include <string>

#include "wick/kernels/declare.h"

// Elementwise functors one after another, so that what passes from one to the next never goes to
// memory. On the CPU it stays in registers, or in tiles that stay in the cache. On a GPU they
// become one kernel, which is compiled at run time.
namespace wick {

/// A functor as a GPU's kernel is generated from it.
struct FunctorSource {
  const char* type = nullptr;  // its name in namespace wick; null if it is not the library's own
  int bytes = 0, alignment = 1;
  bool is_quick = false;  // its kernel uses the functions for results of 16 bits
};

/// The call of an elementwise kernel, as it was asked for.
struct ElementwiseCall {
  static constexpr int kMaxInputs = 3;
  void (*loop)(const void* f, void* y, const void* const* x, int64_t n);  // null on a GPU
  const void* links;  // on the CPU: the FunctorLinks of its instruction set, or null
  const void* functor;
  Dtype compute;  // the computing type's dtype
  int arity;
  View y;
  View x[kMaxInputs];
  FunctorSource source;  // on a GPU
};

/// While a thread has one, elementwise kernels note their calls there and compute nothing.
struct ElementwiseCapture {
  int count = 0;
  ElementwiseCall last{};

  /// Notes a call; `inputs` are its x.
  void note(const ElementwiseCall& call, const View* inputs);
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
    int step = -1;  // which made it, where it is no view
    int converted = -1;
    Dtype dtype = Dtype::kFloat32;
  };
  struct Step {
    void (*loop)(const void* f, void* y, const void* const* x, int64_t n) = nullptr;
    const void* links = nullptr;  // as ElementwiseCall's
    const void* functor = nullptr;
    Dtype compute = Dtype::kFloat32;  // float64, float32 or int64
    Dtype dtype = Dtype::kFloat32;    // of the result
    int arity = 0;
    Source x[ElementwiseCall::kMaxInputs];
    int slot = -1;      // where the result goes
    int computed = -1;  // where it is computed, if it is converted after that
    int view = -1;      // the result that it is; -1 if it only passes on
    FunctorSource source;
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
namespace cuda {
struct CompiledKernel;

/// The kernel of the chain for such views, by their device, dtypes and layouts, and aligned or not
/// to 16 bytes as these. It lives as long as the process. Null where it cannot be compiled, and
/// `why_not` gets the reason.
const CompiledKernel* compile_chain(const ElementwiseChain& chain, const View* views,
                                    std::string& why_not);
void elementwise_chain(const ElementwiseChain& chain, const CompiledKernel& kernel,
                       const View* views);
}  // namespace cuda

}  // namespace wick
