#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// Matrix product over the last axis of `a` and the last but one of `b`: [..., M, K] x [..., K, N]
/// -> [..., M, N], leading axes broadcast. A 1-D `a` counts as one row, a 1-D `b` as one column,
/// and that axis is dropped from the result. Accumulated in float for float16 and bfloat16;
/// integers wrap. Error unless dtypes are equal (not bool) and shapes fit. Also Tensor::matmul.
Tensor matmul(const Tensor& a, const Tensor& b);

/// x · weightᵀ + bias. x: [..., K], weight: [N, K], bias: [N] or undefined; returns [..., N], for
/// rank-1 x [N]. Error unless dtypes are equal and floating and shapes fit.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace wick
