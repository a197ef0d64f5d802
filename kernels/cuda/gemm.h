#pragma once

#include "wick/core/base/device.h"
#include "wick/core/base/dtype.h"
#include "wick/core/base/workspace.h"

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

/// y_i = a_i · b_i + bias for i < batch. a: m x k, b: k x n, y: m x n in rows, one behind the
/// other; bias: n elements or null. All sizes are 1 or more, all elements of one floating dtype,
/// sums in float (float64: in double).
struct Gemm {
  Dtype dtype = Dtype::kFloat32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  GemmOperand a, b;
  const void* bias = nullptr;
  void* y = nullptr;
};

/// Queues it on the current stream of `device`.
void gemm(Device device, const Gemm& g, Workspace& workspace);

}  // namespace wick::cuda
