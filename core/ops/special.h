#pragma once

#include <optional>

#include "wick/core/tensor.h"

// More mathematical functions of each element. What elementwise.h says of shapes and dtypes holds
// here too: unless said otherwise integers become float32.

namespace wick {

/// 2^x
Tensor exp2(const Tensor& x);
/// log(x) / log(10)
Tensor log10(const Tensor& x);
Tensor asin(const Tensor& x);   // in radians, within [-pi / 2, pi / 2]
Tensor acos(const Tensor& x);   // in radians, within [0, pi]
Tensor atan(const Tensor& x);   // in radians, within [-pi / 2, pi / 2]
Tensor sinh(const Tensor& x);   // (exp(x) - exp(-x)) / 2
Tensor cosh(const Tensor& x);   // (exp(x) + exp(-x)) / 2
Tensor asinh(const Tensor& x);  // the y with sinh(y) = x
Tensor acosh(const Tensor& x);  // the y of 0 or more with cosh(y) = x
Tensor atanh(const Tensor& x);  // the y with tanh(y) = x
/// 1 - erf(x), accurate for large x.
Tensor erfc(const Tensor& x);
/// The y with erf(y) = x.
Tensor erfinv(const Tensor& x);
/// log |gamma(x)|
Tensor lgamma(const Tensor& x);
/// The first derivative of lgamma.
Tensor digamma(const Tensor& x);
/// The second derivative of lgamma, PyTorch's polygamma(1, x); has no gradient.
Tensor trigamma(const Tensor& x);
/// sin(pi x) / (pi x), 1 at 0.
Tensor sinc(const Tensor& x);
/// log(x / (1 - x)), with `eps` of x kept within [eps, 1 - eps].
Tensor logit(const Tensor& x, std::optional<double> eps = {});
/// x without its whole part. Error for integers.
Tensor frac(const Tensor& x);
/// Rounded to `decimals` places after the point (before it, if negative), halves to the even
/// digit. Integers stay what they are; error if those are rounded to tens.
Tensor round(const Tensor& x, int64_t decimals);
Tensor deg2rad(const Tensor& x);  // x pi / 180
Tensor rad2deg(const Tensor& x);  // x 180 / pi
/// Other numbers for NaN, infinity and -infinity: by default 0 and the largest and smallest of x's
/// dtype. The gradient there is 0. Integers stay what they are.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});

/// |x| with the sign of y.
Tensor copysign(const Tensor& x, const Tensor& y);
/// sqrt(x^2 + y^2)
Tensor hypot(const Tensor& x, const Tensor& y);
/// x log(y), 0 where x is 0 and y is a number.
Tensor xlogy(const Tensor& x, const Tensor& y);
/// log(exp(x) + exp(y))
Tensor logaddexp(const Tensor& x, const Tensor& y);
/// log2(2^x + 2^y)
Tensor logaddexp2(const Tensor& x, const Tensor& y);
/// 0 for negative x, 1 for positive x, `values` where x is 0, in one dtype. Not differentiable.
Tensor heaviside(const Tensor& x, const Tensor& values);
/// The larger (smaller) of the two; the other one where one is NaN. At ties each gets half of the
/// gradient.
Tensor fmax(const Tensor& x, const Tensor& y);
Tensor fmin(const Tensor& x, const Tensor& y);
/// minimum(maximum(x, low), high) with bounds for each element, either of which may be undefined:
/// at a bound x gets half of the gradient, and the bound the other half. A template, so that
/// `clamp(x, {}, {})` is the form of numbers and not ambiguous. Error without a bound.
template <class = void>
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
extern template Tensor clamp<void>(const Tensor& x, const Tensor& low, const Tensor& high);
/// y - alpha x
Tensor rsub(const Tensor& x, const Tensor& y, Scalar alpha = 1);

/// x log(1 + y), 0 where x is 0 and y is a number.
Tensor xlog1py(const Tensor& x, const Tensor& y);
/// x 2^y. Integers y leave the dtype to x, of which integers become float32.
Tensor ldexp(const Tensor& x, const Tensor& y);
/// pow in float64.
Tensor float_power(const Tensor& x, const Tensor& y);
Tensor float_power(const Tensor& x, double y);
/// -x log(x): 0 for 0, -infinity for negative x.
Tensor entr(const Tensor& x);
/// The share of a standard normal distribution that lies below x.
Tensor ndtr(const Tensor& x);
/// The logarithm of the gamma function of `p` variables (Muirhead: Aspects of multivariate
/// statistical theory, 1982). x is above (p - 1) / 2.
Tensor mvlgamma(const Tensor& x, int64_t p);
/// The powers x^(n-1), ..., x, 1 of each element of the vector x as a row, `columns` of them, by
/// default as many as x has elements; the other way round if `increasing`.
Tensor vander(const Tensor& x, std::optional<int64_t> columns = {}, bool increasing = false);
/// sign, by another name; whether the sign's bit is set, as of -0 and -NaN.
Tensor sgn(const Tensor& x);
Tensor signbit(const Tensor& x);
/// clamp with one bound.
Tensor clamp_min(const Tensor& x, Scalar low);
Tensor clamp_min(const Tensor& x, const Tensor& low);
Tensor clamp_max(const Tensor& x, Scalar high);
Tensor clamp_max(const Tensor& x, const Tensor& high);

/// Whether |x - y| <= atol + rtol |y|, infinities being close to themselves alone and NaN to NaN if
/// `equal_nan`; bool.
Tensor isclose(const Tensor& x, const Tensor& y, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
Tensor isposinf(const Tensor& x);  // whether x is infinity; bool
Tensor isneginf(const Tensor& x);  // whether x is -infinity; bool

/// Of the bits of integers; of bool the other one.
Tensor bitwise_not(const Tensor& x);
/// The bits of integers moved by y places, the sign's bit coming in at the left.
Tensor bitwise_left_shift(const Tensor& x, const Tensor& y);
Tensor bitwise_right_shift(const Tensor& x, const Tensor& y);

}  // namespace wick
