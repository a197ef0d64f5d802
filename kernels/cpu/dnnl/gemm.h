#pragma once

// Matrix multiplication as the kernels of this folder use it.

#include "wick/core/base/dtype.h"
#include "wick/core/base/workspace.h"

namespace wick::cpu {

/// A matrix: element (i, j) is at data[i * row + j * column]. One of the two strides is 1, unless
/// that axis has size 1.
struct Matrix {
  const void* data = nullptr;
  int64_t row = 0;
  int64_t column = 0;
};

struct GemmSizes {
  int64_t m, n, k;
};

/// c = a · b + bias (+ c with `accumulate`); c is row-major with row length `ldc`. `out`: the type
/// of c, `in` or, for bfloat16, also float32. `in`: float64, float32, bfloat16 (where oneDNN has
/// it), integers. `bias` may be null, has the type `out`.
void gemm(GemmSizes sizes, Dtype in, const Matrix& a, const Matrix& b, const void* bias, Dtype out,
          void* c, int64_t ldc, bool accumulate, Workspace& workspace);

/// `count` products c_i = a_i · b_i, the operands `a_step`, `b_step` and `c_step` elements apart.
void gemm_batch(int64_t count, GemmSizes sizes, Dtype dtype, const Matrix& a, int64_t a_step,
                const Matrix& b, int64_t b_step, void* c, int64_t c_step, Workspace& workspace);

}  // namespace wick::cpu
