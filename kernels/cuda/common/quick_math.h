#pragma once

#include <cmath>

#include "wick/core/base/macros.h"

// Functions by single instructions of GPUs. Their errors are far below half a unit in the last
// place of 16-bit results. The simulated GPU computes them by the standard library.
namespace wick {

/// exp(x), with a relative error of about |x| * 1e-7. 0 where it is below 1e-38.
WICK_HOST_DEVICE float quick_exp(float x) {
#ifdef __CUDA_ARCH__
  constexpr float kLog2OfE = 1.4426950408889634f;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * kLog2OfE));
  return result;
#else
  return std::exp(x);
#endif
}

/// 1 / x, with a relative error of 1e-7.
WICK_HOST_DEVICE float quick_reciprocal(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return 1 / x;
#endif
}

/// 1 / sqrt(x) with a relative error of 1e-13: from float's by one step of Newton's method, which
/// takes a tenth of the instructions of a square root and a division in double.
WICK_HOST_DEVICE double quick_inverse_root(double x) {
  if (!(x > 1e-37 && x < 1e37)) return 1 / std::sqrt(x);
#ifdef __CUDA_ARCH__
  const double guess = rsqrtf(static_cast<float>(x));
#else
  const double guess = 1 / std::sqrt(static_cast<float>(x));
#endif
  return guess * (1.5 - 0.5 * x * guess * guess);
}

}  // namespace wick
