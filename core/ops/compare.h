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

// Of each element, too: none of them compares tensors as wholes, as equal() does.
inline Tensor operator==(const Tensor& x, const Tensor& y) { return eq(x, y); }
inline Tensor operator==(const Tensor& x, Scalar y) { return eq(x, y); }
inline Tensor operator==(Scalar x, const Tensor& y) { return eq(y, x); }
inline Tensor operator!=(const Tensor& x, const Tensor& y) { return ne(x, y); }
inline Tensor operator!=(const Tensor& x, Scalar y) { return ne(x, y); }
inline Tensor operator!=(Scalar x, const Tensor& y) { return ne(y, x); }
inline Tensor operator<(const Tensor& x, const Tensor& y) { return lt(x, y); }
inline Tensor operator<(const Tensor& x, Scalar y) { return lt(x, y); }
inline Tensor operator<(Scalar x, const Tensor& y) { return gt(y, x); }
inline Tensor operator<=(const Tensor& x, const Tensor& y) { return le(x, y); }
inline Tensor operator<=(const Tensor& x, Scalar y) { return le(x, y); }
inline Tensor operator<=(Scalar x, const Tensor& y) { return ge(y, x); }
inline Tensor operator>(const Tensor& x, const Tensor& y) { return gt(x, y); }
inline Tensor operator>(const Tensor& x, Scalar y) { return gt(x, y); }
inline Tensor operator>(Scalar x, const Tensor& y) { return lt(y, x); }
inline Tensor operator>=(const Tensor& x, const Tensor& y) { return ge(x, y); }
inline Tensor operator>=(const Tensor& x, Scalar y) { return ge(x, y); }
inline Tensor operator>=(Scalar x, const Tensor& y) { return le(y, x); }

/// "Is not 0" combined.
Tensor logical_and(const Tensor& x, const Tensor& y);
Tensor logical_or(const Tensor& x, const Tensor& y);
Tensor logical_xor(const Tensor& x, const Tensor& y);
Tensor logical_not(const Tensor& x);

/// Of the bits of integers, or of bool. The dtype is that of x and y promoted.
Tensor bitwise_and(const Tensor& x, const Tensor& y);
Tensor bitwise_or(const Tensor& x, const Tensor& y);
Tensor bitwise_xor(const Tensor& x, const Tensor& y);

inline Tensor operator&(const Tensor& x, const Tensor& y) { return bitwise_and(x, y); }
inline Tensor operator|(const Tensor& x, const Tensor& y) { return bitwise_or(x, y); }
inline Tensor operator^(const Tensor& x, const Tensor& y) { return bitwise_xor(x, y); }
inline Tensor operator!(const Tensor& x) { return logical_not(x); }

Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
/// Neither infinite nor NaN.
Tensor isfinite(const Tensor& x);

/// Whether shapes and all elements are equal. Waits for the device.
bool equal(const Tensor& x, const Tensor& y);
/// Whether |x - y| <= atol + rtol |y| for all elements, infinities being close to themselves alone
/// and NaN to NaN if `equal_nan`. Shapes broadcast. Waits for the device.
bool allclose(const Tensor& x, const Tensor& y, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);

/// x where `condition` (bool) holds, else y; in the dtype both can be converted to. Differentiable
/// by x and y.
Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y);
Tensor where(const Tensor& condition, const Tensor& x, Scalar y);
Tensor where(const Tensor& condition, Scalar x, const Tensor& y);

/// `value` where `mask` (bool) holds, else x, in x's dtype. Shapes broadcast; in place the mask's
/// to x's.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
/// The same with the value in a tensor of rank 0, by which it is differentiable.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);

}  // namespace wick
