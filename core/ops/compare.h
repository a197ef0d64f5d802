#pragma once

#include "wick/core/tensor.h"

// Comparisons and logic of each element: results are of dtype bool and not differentiable. Shapes
// broadcast.

namespace wick {

Tensor eq(const Tensor& x, const Tensor& y);
Tensor eq(const Tensor& x, Scalar y);
Tensor ne(const Tensor& x, const Tensor& y);
Tensor ne(const Tensor& x, Scalar y);
Tensor lt(const Tensor& x, const Tensor& y);
Tensor lt(const Tensor& x, Scalar y);
Tensor le(const Tensor& x, const Tensor& y);
Tensor le(const Tensor& x, Scalar y);
Tensor gt(const Tensor& x, const Tensor& y);
Tensor gt(const Tensor& x, Scalar y);
Tensor ge(const Tensor& x, const Tensor& y);
Tensor ge(const Tensor& x, Scalar y);

// == and != are left out: they would read as comparing the tensors as wholes.
inline Tensor operator<(const Tensor& x, const Tensor& y) { return lt(x, y); }
inline Tensor operator<(const Tensor& x, Scalar y) { return lt(x, y); }
inline Tensor operator<=(const Tensor& x, const Tensor& y) { return le(x, y); }
inline Tensor operator<=(const Tensor& x, Scalar y) { return le(x, y); }
inline Tensor operator>(const Tensor& x, const Tensor& y) { return gt(x, y); }
inline Tensor operator>(const Tensor& x, Scalar y) { return gt(x, y); }
inline Tensor operator>=(const Tensor& x, const Tensor& y) { return ge(x, y); }
inline Tensor operator>=(const Tensor& x, Scalar y) { return ge(x, y); }

/// "Is not 0" combined.
Tensor logical_and(const Tensor& x, const Tensor& y);
Tensor logical_or(const Tensor& x, const Tensor& y);
Tensor logical_xor(const Tensor& x, const Tensor& y);
Tensor logical_not(const Tensor& x);

/// Of the bits of integers, or of bool. The dtype is that of x and y promoted.
Tensor bitwise_and(const Tensor& x, const Tensor& y);
Tensor bitwise_or(const Tensor& x, const Tensor& y);
Tensor bitwise_xor(const Tensor& x, const Tensor& y);

Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
/// Neither infinite nor NaN.
Tensor isfinite(const Tensor& x);

/// x where `condition` (bool) holds, else y; in the dtype both can be converted to. Differentiable
/// by x and y.
Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y);
Tensor where(const Tensor& condition, const Tensor& x, Scalar y);
Tensor where(const Tensor& condition, Scalar x, const Tensor& y);

/// `value` where `mask` (bool, broadcast to x's shape) holds, else x, in x's dtype.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);

}  // namespace wick
