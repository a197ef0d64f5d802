#pragma once

#include "wick/core/base/activation.h"
#include "wick/core/tensor.h"

namespace wick {

/// Matrix product over the last axis of `a` and the last but one of `b`: [..., M, K] x [..., K, N]
/// -> [..., M, N], leading axes broadcast. A 1-D `a` counts as one row, a 1-D `b` as one column,
/// and that axis is dropped from the result. Accumulated in float for float16 and bfloat16;
/// integers wrap. Error unless dtypes are equal (not bool) and shapes fit.
Tensor matmul(const Tensor& a, const Tensor& b);

/// matmul of matrices alone: [M, K] x [K, N].
Tensor mm(const Tensor& a, const Tensor& b);
/// matmul of batches of matrices alone: [B, M, K] x [B, K, N].
Tensor bmm(const Tensor& a, const Tensor& b);
/// beta x + alpha (a · b) for matrices a, b; x broadcasts to the product.
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
/// The sum of products of two vectors [N]; rank 0.
Tensor dot(const Tensor& a, const Tensor& b);
/// The products of all elements of vector a [M] with all of b [N]: [M, N].
Tensor outer(const Tensor& a, const Tensor& b);

/// activation(x · weightᵀ + bias), in one pass where the device's library can. x: [..., K], weight:
/// [N, K], bias: [N] or undefined; returns [..., N], for rank-1 x [N]. A weight [K], without bias,
/// gives [...]. Error unless dtypes are equal and floating and shapes fit.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::kNone);

}  // namespace wick
