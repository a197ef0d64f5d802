#pragma once

#include <math.h>

#include "wick/kernels/clip.h"

// What clipping does to single elements, on every device.

namespace wick {

// A norm: norm(a, b) combines two terms, of which 0 changes none; term(x) is what an element
// contributes, and finish(total) makes the norm of all.
struct LargestAbsolute {
  WICK_HOST_DEVICE double operator()(double a, double b) const { return b > a || b != b ? b : a; }
  WICK_HOST_DEVICE double term(double x) const { return ::fabs(x); }
  WICK_HOST_DEVICE double finish(double total) const { return total; }
};
struct SumOfTerms {
  WICK_HOST_DEVICE double operator()(double a, double b) const { return a + b; }
};
struct SumOfAbsolutes : SumOfTerms {
  WICK_HOST_DEVICE double term(double x) const { return ::fabs(x); }
  WICK_HOST_DEVICE double finish(double total) const { return total; }
};
struct SumOfSquares : SumOfTerms {
  WICK_HOST_DEVICE double term(double x) const { return x * x; }
  WICK_HOST_DEVICE double finish(double total) const { return ::sqrt(total); }
};
struct SumOfPowers : SumOfTerms {
  double p;
  WICK_INLINE explicit SumOfPowers(double p_in) : p(p_in) {}
  WICK_HOST_DEVICE double term(double x) const { return ::pow(::fabs(x), p); }
  WICK_HOST_DEVICE double finish(double total) const { return ::pow(total, 1 / p); }
};

/// Calls `visit` with the p-norm.
template <class Visit>
WICK_INLINE void visit_norm(double p, Visit&& visit) {
  if (p == HUGE_VAL) return visit(LargestAbsolute());
  if (p == 1) return visit(SumOfAbsolutes());
  if (p == 2) return visit(SumOfSquares());
  visit(SumOfPowers(p));
}

/// What gradients of norm `total` are multiplied by.
WICK_HOST_DEVICE double clip_factor(double total, double max_norm) {
  const double share = max_norm / (total + 1e-6);
  return share > 1 ? 1 : share;
}

/// x between -limit and limit, or NaN.
template <class T>
WICK_HOST_DEVICE T clamped(T x, double limit) {
  const T most = static_cast<T>(limit);
  return x > most ? most : x < -most ? -most : x;
}

}  // namespace wick
