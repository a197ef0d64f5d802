#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wick/core/base/activation.h"
#include "wick/core/base/device.h"
#include "wick/core/base/dtype.h"
#include "wick/core/base/workspace.h"
#include "wick/kernels/engine.h"

// Matrix multiplication by the vendor's library: cublaslt.cpp, or the simulator's gemm.cpp.
namespace wick::cuda {

/// The matrices of a batch, `step` elements apart; 0: one for all. Each lies in rows `ld` elements
/// apart, or, if `transposed`, in columns `ld` apart.
struct GemmOperand {
  const void* data = nullptr;
  int64_t ld = 1;
  int64_t step = 0;
  bool transposed = false;
};

/// y_i = activation(scale · a_i · b_i + bias + residual_i) for i < batch. a: m x k, b: k x n, y:
/// m x n in rows, one behind the other; bias: n elements or null; before: as y, gets the
/// activation's argument, or null; residual: as y, or null, as with an activation. All sizes are 1
/// or more, all elements of one floating dtype, sums in float (float64: in double).
struct Gemm {
  Dtype dtype = Dtype::kFloat32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  GemmOperand a, b;
  const void* bias = nullptr;
  void* y = nullptr;
  Activation activation = Activation::kNone;
  void* before = nullptr;
  const void* residual = nullptr;
  double scale = 1;
};

/// Whether cuBLASLt can be asked for the activation of `g`: not in float64, and it keeps GELU's
/// argument only of one matrix, at multiples of 16 bytes, in rows of a multiple of 8 elements.
inline bool has_activation_epilogue(const Gemm& g) {
  if (g.activation == Activation::kNone || g.dtype == Dtype::kFloat64) return false;
  return g.before == nullptr || (g.activation == Activation::kGeluTanh && g.batch == 1 &&
                                 g.n % 8 == 0 && reinterpret_cast<uintptr_t>(g.before) % 16 == 0);
}

/// `g` without its activation, whose argument it leaves where gemm() says.
inline Gemm product_alone(Gemm g) {
  g.activation = Activation::kNone;
  if (g.before != nullptr) g.y = g.before;
  g.before = nullptr;
  return g;
}

/// The library's engines for `g`, as engine.h says.
std::vector<std::string> gemm_engines(Device device, const Gemm& g);

/// Queues it on the current stream of `device`. Returns whether that includes the activation: if
/// not, since the library does not have it, its argument is in `before`, or in y if that is null.
/// `engine`: as gemm_engines counts; a number that `g` has no engine for counts as kAnyEngine.
bool gemm(Device device, const Gemm& g, int engine, Workspace& workspace);

}  // namespace wick::cuda
