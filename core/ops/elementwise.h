#pragma once

#include <optional>

#include "wick/core/tensor.h"

// Arithmetic and mathematical functions of each element. Shapes broadcast as in PyTorch. The
// result's dtype is the one both can be converted to; numbers and tensors of rank 0 do not widen a
// dtype of the same kind (bool, integer, floating). Functions that are not defined on integers take
// those as float32. float16 and bfloat16 are computed in float32 and rounded once. The result is
// laid out in memory like the first input of its shape.

namespace wick {

/// x + alpha y
Tensor add(const Tensor& x, const Tensor& y, Scalar alpha = 1);
Tensor add(const Tensor& x, Scalar y);
/// x - alpha y. Error for bool.
Tensor sub(const Tensor& x, const Tensor& y, Scalar alpha = 1);
Tensor sub(const Tensor& x, Scalar y);
Tensor sub(Scalar x, const Tensor& y);
Tensor mul(const Tensor& x, const Tensor& y);  // x y
Tensor mul(const Tensor& x, Scalar y);         // x y
/// x / y; of integers too a fraction.
Tensor div(const Tensor& x, const Tensor& y);
Tensor div(const Tensor& x, Scalar y);
Tensor div(Scalar x, const Tensor& y);
/// x + value a b
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// x + value a / b. Error for integers.
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value = 1);
/// x + weight (end - x), which is x at weight 0 and end at weight 1, bit for bit. Error unless
/// all are of one floating dtype.
Tensor lerp(const Tensor& x, const Tensor& end, const Tensor& weight);
Tensor lerp(const Tensor& x, const Tensor& end, double weight);
/// x^y
Tensor pow(const Tensor& x, const Tensor& y);
Tensor pow(const Tensor& x, Scalar y);
/// The larger (smaller) of the two; NaN if either is. At ties each gets half of the gradient.
Tensor maximum(const Tensor& x, const Tensor& y);
Tensor minimum(const Tensor& x, const Tensor& y);
/// min(max(x, low), high); either bound may be missing. The gradient is 0 at the bounds.
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high = {});

inline Tensor operator+(const Tensor& x, const Tensor& y) { return add(x, y); }
inline Tensor operator+(const Tensor& x, Scalar y) { return add(x, y); }
inline Tensor operator+(Scalar x, const Tensor& y) { return add(y, x); }
inline Tensor operator-(const Tensor& x, const Tensor& y) { return sub(x, y); }
inline Tensor operator-(const Tensor& x, Scalar y) { return sub(x, y); }
inline Tensor operator-(Scalar x, const Tensor& y) { return sub(x, y); }
inline Tensor operator*(const Tensor& x, const Tensor& y) { return mul(x, y); }
inline Tensor operator*(const Tensor& x, Scalar y) { return mul(x, y); }
inline Tensor operator*(Scalar x, const Tensor& y) { return mul(y, x); }
inline Tensor operator/(const Tensor& x, const Tensor& y) { return div(x, y); }
inline Tensor operator/(const Tensor& x, Scalar y) { return div(x, y); }
inline Tensor operator/(Scalar x, const Tensor& y) { return div(x, y); }

/// -x. Error for bool.
Tensor neg(const Tensor& x);
inline Tensor operator-(const Tensor& x) { return neg(x); }
/// |x|; its gradient at 0 is 0.
Tensor abs(const Tensor& x);
/// -1, 0 or 1; 0 for NaN.
Tensor sign(const Tensor& x);
Tensor square(const Tensor& x);  // x^2
Tensor sqrt(const Tensor& x);    // NaN for negative x
/// 1 / sqrt(x)
Tensor rsqrt(const Tensor& x);
/// 1 / x
Tensor reciprocal(const Tensor& x);
Tensor exp(const Tensor& x);  // e^x
/// exp(x) - 1, accurate near 0.
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);  // the natural logarithm
/// log(1 + x), accurate near 0.
Tensor log1p(const Tensor& x);
/// log(x) / log(2)
Tensor log2(const Tensor& x);
Tensor sin(const Tensor& x);  // of x in radians
Tensor cos(const Tensor& x);  // of x in radians
/// sin(x) / cos(x)
Tensor tan(const Tensor& x);
/// The angle of the point (x, y), in [-pi, pi]. Gradients at the origin are 0.
Tensor atan2(const Tensor& y, const Tensor& x);
Tensor tanh(const Tensor& x);  // the hyperbolic tangent
Tensor erf(const Tensor& x);   // the error function
/// 1 / (1 + exp(-x))
Tensor sigmoid(const Tensor& x);
Tensor floor(const Tensor& x);  // the largest whole number that is not above x
Tensor ceil(const Tensor& x);   // the smallest whole number that is not below x
/// To the nearest whole number, halves to the even one.
Tensor round(const Tensor& x);
Tensor trunc(const Tensor& x);  // the whole part of x

}  // namespace wick
