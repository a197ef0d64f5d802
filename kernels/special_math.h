#pragma once

#include <math.h>

#include "wick/core/base/macros.h"

// Functions of one number that neither vectors nor the C library have, or that keep a state there:
// in double, whatever the elements are, on every device.
namespace wick::fn {

/// log |gamma(x)|
WICK_HOST_DEVICE double lgamma_of(double x) {
#ifdef __CUDA_ARCH__
  return ::lgamma(x);
#else
  int sign = 0;
  return ::lgamma_r(x, &sign);
#endif
}

/// The derivative of log gamma(x): by its recurrence to x >= 10, there by its asymptotic series,
/// and below 0 by reflection. NaN at whole numbers below 0, infinite at 0.
WICK_HOST_DEVICE double digamma_of(double x) {
  constexpr double kPi = 3.14159265358979324;
  if (x == 0) return -1 / x;
  double sum = 0;
  if (x < 0) {
    if (x == ::floor(x)) return ::nan("");
    sum = -kPi / ::tan(kPi * (x - ::rint(x)));  // a difference without rounding, also near 0
    x = 1 - x;
  }
  for (; x < 10; x += 1) sum -= 1 / x;
  const double z = 1 / (x * x);
  const double series =
      z *
      (1.0 / 12 -
       z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760))))));
  return sum + ::log(x) - 0.5 / x - series;
}

/// The derivative of digamma_of, likewise.
WICK_HOST_DEVICE double trigamma_of(double x) {
  constexpr double kPi = 3.14159265358979324;
  double sum = 0, sign = 1;
  if (x < 0.5) {
    const double s = ::sin(kPi * (x - ::rint(x)));
    sum = (kPi * kPi) / (s * s);
    sign = -1;
    x = 1 - x;
  }
  double tail = 0;
  for (; x < 10; x += 1) tail += 1 / (x * x);
  const double z = 1 / (x * x);
  const double series =
      z / x * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66)))));
  return sum + sign * (tail + 1 / x + 0.5 * z + series);
}

/// The y with erf(y) = x: by Giles' polynomials (Approximating the erfinv function, 2010), made
/// exact by two of Newton's steps.
WICK_HOST_DEVICE double erfinv_of(double x) {
  if (!(::fabs(x) < 1)) return ::fabs(x) == 1 ? x * HUGE_VAL : ::nan("");
  double w = -::log((1 - x) * (1 + x)), p = 0;
  if (w < 5) {
    w -= 2.5;
    p = 2.81022636e-08;
    p = 3.43273939e-07 + p * w;
    p = -3.5233877e-06 + p * w;
    p = -4.39150654e-06 + p * w;
    p = 0.00021858087 + p * w;
    p = -0.00125372503 + p * w;
    p = -0.00417768164 + p * w;
    p = 0.246640727 + p * w;
    p = 1.50140941 + p * w;
  } else {
    w = ::sqrt(w) - 3;
    p = -0.000200214257;
    p = 0.000100950558 + p * w;
    p = 0.00134934322 + p * w;
    p = -0.00367342844 + p * w;
    p = 0.00573950773 + p * w;
    p = -0.0076224613 + p * w;
    p = 0.00943887047 + p * w;
    p = 1.00167406 + p * w;
    p = 2.83297682 + p * w;
  }
  double y = p * x;
  for (int step = 0; step < 2; ++step) {
    // Near 1 by the complement, which keeps its digits.
    const double error = ::fabs(x) < 0.5 ? ::erf(y) - x
                         : x > 0         ? (1 - x) - ::erfc(y)
                                         : ::erfc(-y) - (1 + x);
    y -= error * 0.886226925452758014 * ::exp(y * y);
  }
  return y;
}

}  // namespace wick::fn
