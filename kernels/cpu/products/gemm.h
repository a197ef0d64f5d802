#pragma once

// Matrix multiplication as the kernels of this folder use it.

#include "wick/core/base/workspace.h"
#include "wick/kernels/cpu/product.h"

namespace wick::cpu {

/// c = a · b + bias, or c + a · b with `accumulate`, where `bias` is null; c is row-major with row
/// length `ldc`. `finish` follows, not of integers. `in`: float64, float32, bfloat16, integers.
/// `out`, of c and `bias`: `in` or, for bfloat16, also float32. The bits do not depend on the
/// number of threads.
void gemm(GemmSizes sizes, Dtype in, const Matrix& a, const Matrix& b, const void* bias, Dtype out,
          void* c, int64_t ldc, bool accumulate, const Finish& finish, Workspace& workspace);

/// `count` products c_i = a_i · b_i, the operands `a_step`, `b_step` and `c_step` elements apart,
/// and what `finish` says of them all.
void gemm_batch(int64_t count, GemmSizes sizes, Dtype dtype, const Matrix& a, int64_t a_step,
                const Matrix& b, int64_t b_step, void* c, int64_t c_step, const Finish& finish,
                Workspace& workspace);

}  // namespace wick::cpu
