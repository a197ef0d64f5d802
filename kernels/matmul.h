#pragma once

#include <string>
#include <vector>

#include "wick/core/base/activation.h"
#include "wick/core/base/workspace.h"
#include "wick/kernels/declare.h"
#include "wick/kernels/engine.h"

namespace wick {

/// What follows a product.
struct MatMulEpilogue {
  View bias;  // [N] or undefined
  Activation activation = Activation::kNone;
  View before = {};  // y's shape and strides: gets the activation's argument; or undefined
  // These two without the others but for a residual's bias, of floating dtypes, and with K above 0:
  View residual = {};  // y's shape and strides, or undefined
  double scale = 1;    // finite
};

// y = activation(scale · a · b + bias + residual). a: [batch..., M, K], b: [batch..., K, N], y:
// [batch..., M, N], dense and row-major. The dtypes are equal. Batch axes of a and b may have
// stride 0; of their last two axes one has stride 1 (or size 1) and the other steps over it.
// float32 and bfloat16 accumulate in float, float64 in double, integers wrap and have no
// activation; float16 only on a GPU, not for bool. `engine`: as matmul_engines counts.
WICK_LIBRARY_KERNEL(matmul, (const View& a, const View& b, const MatMulEpilogue& epilogue,
                             const View& y, int engine, Workspace& workspace));

// The library's engines for the same (see engine.h); none on the CPU.
WICK_LIBRARY_KERNEL(matmul_engines, (const View& a, const View& b, const MatMulEpilogue& epilogue,
                                     const View& y, std::vector<std::string>* engines));

}  // namespace wick
