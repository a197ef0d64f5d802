#pragma once

#include "wick/kernels/elementwise_ops.h"

// Mathematical functions that few networks use. Vectors call the C library lane by lane.
namespace wick::fn {

WICK_FUNCTOR(Exp2, exp2, kOutput, dy*(s * 0.693147180559945309));    // log 2
WICK_FUNCTOR(Log10, log10, kInput, dy / (s * 2.30258509299404568));  // log 10
WICK_FUNCTOR(Asin, asin, kInput, dy / sqrt((1.0 - s) * (s + 1.0)));
WICK_FUNCTOR(Acos, acos, kInput, -(dy / sqrt((1.0 - s) * (s + 1.0))));
WICK_FUNCTOR(Atan, atan, kInput, dy / (s * s + 1.0));
WICK_FUNCTOR(Sinh, sinh, kInput, dy* cosh(s));
WICK_FUNCTOR(Cosh, cosh, kInput, dy* sinh(s));
WICK_FUNCTOR(Asinh, asinh, kInput, dy / sqrt(s * s + 1.0));
WICK_FUNCTOR(Acosh, acosh, kInput, dy / sqrt((s - 1.0) * (s + 1.0)));
WICK_FUNCTOR(Atanh, atanh, kInput, dy / ((1.0 - s) * (s + 1.0)));
WICK_FUNCTOR(Erfc, erfc, kInput, dy*(exp(-(s* s)) * -1.12837916709551257));  // 2 / sqrt(pi)
WICK_FUNCTOR(Erfinv, erfinv, kOutput, dy*(exp(s* s) * 0.886226925452758014));
WICK_FUNCTOR(Lgamma, lgamma, kInput, dy* digamma(s));
WICK_FUNCTOR(Digamma, digamma, kInput, dy* trigamma(s));

/// The derivative of digamma; has none of its own.
struct Trigamma : OnFloats<1> {
  static constexpr char name[] = "trigamma";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return trigamma(x);
  }
};

/// x - trunc(x)
struct Frac : OnFloats<1> {
  static constexpr char name[] = "frac";
  static constexpr Keep keep = Keep::kNothing;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return x - trunc(x);
  }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V) const {
    return dy;
  }
};

/// sin(pi x) / (pi x), 1 at 0.
struct Sinc : OnFloats<1> {
  static constexpr char name[] = "sinc";
  static constexpr Keep keep = Keep::kInput;
  static constexpr double kPi = 3.14159265358979324;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    const V a = x * V(kPi);
    return select(x == V(0), V(1), sin(a) / a);
  }
  // Near 0, where the difference has no digits, by its series.
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    const V a = x * kPi, square = a * a, large = select(abs(a) > 0.25, a, 1.0);
    const V far = (cos(large) * large - sin(large)) / (large * large) * kPi;
    const V near = a * ((square * (square * (-1.0 / 840) + 1.0 / 30) - 1.0 / 3) * kPi);
    return dy * select(abs(a) > 0.25, far, near);
  }
};

/// Other numbers for NaN, infinity and -infinity.
struct NanToNum : OnNumbers<1> {
  static constexpr char name[] = "nan_to_num";
  static constexpr Keep keep = Keep::kInput;
  double nan = 0, posinf = 0, neginf = 0;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x) const {
    return select(x != x, V(nan), select(x - x == V(0), x, select(x > V(0), V(posinf), V(neginf))));
  }
  WICK_HOST_DEVICE Integer operator()(Integer x) const { return x; }
  template <class V>
  WICK_HOST_DEVICE V gradient(V dy, V x) const {
    return select(x - x == 0.0, dy, dy * 0.0);
  }
};

// --- Of two numbers -----------------------------------------------------------------------------

/// |x| with the sign of y.
struct Copysign : OnFloats<2> {
  static constexpr char name[] = "copysign";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return copysign(x, y);
  }
};

/// sqrt(x^2 + y^2) without overflow.
struct Hypot : OnFloats<2> {
  static constexpr char name[] = "hypot";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return hypot(x, y);
  }
};

/// x log(y), 0 where x is 0 and y is a number.
struct Xlogy : OnFloats<2> {
  static constexpr char name[] = "xlogy";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return select(y != y, y, select(x == V(0), V(0), x * log(y)));
  }
};

/// log(exp(x) + exp(y))
struct Logaddexp : OnFloats<2> {
  static constexpr char name[] = "logaddexp";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    const V apart = select(x == y, V(0), -abs(x - y));  // of equal infinities too
    return max(x, y) + log1p(exp(apart));
  }
};

/// log2(2^x + 2^y)
struct Logaddexp2 : OnFloats<2> {
  static constexpr char name[] = "logaddexp2";
  static constexpr double kLn2 = 0.693147180559945309;
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    const V apart = select(x == y, V(0), -abs(x - y));
    return max(x, y) + log1p(exp(apart * V(kLn2))) * V(1 / kLn2);
  }
};

// --- Division of whole numbers ------------------------------------------------------------------
// By 0 it gives 0 here: on the CPU the op refuses it.

WICK_HOST_DEVICE Integer fmod(Integer x, Integer y) {
  return y == 0 || y == -1 ? 0 : x.value % y.value;
}
WICK_HOST_DEVICE Integer quotient(Integer x, Integer y) {
  return y == 0 ? Integer(0) : y == -1 ? -x : Integer(x.value / y.value);
}

/// The quotient without its fraction.
struct TruncDivide : OnNumbers<2> {
  static constexpr char name[] = "trunc_divide";
  WICK_HOST_DEVICE Integer operator()(Integer x, Integer y) const { return quotient(x, y); }
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return trunc(x / y);
  }
};

/// The largest whole number not above the quotient, as Python's //: by the remainder, so that
/// rounding of the quotient cannot carry it past a whole number.
struct FloorDivide : OnNumbers<2> {
  static constexpr char name[] = "floor_divide";
  WICK_HOST_DEVICE Integer operator()(Integer x, Integer y) const {
    const Integer q = quotient(x, y), rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? q - 1 : q;
  }
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    const V zero = V(0), one = V(1), plain = x / y, rest = fmod(x, y);
    const V against = select(rest < zero, one, zero) - select(y < zero, one, zero);
    const V below = select(rest == zero, zero, abs(against));
    const V q = (x - rest) / y - below, whole = floor(q);
    const V near = select(q - whole > V(0.5), whole + one, whole);
    return select(y == zero, plain, select(q == zero, copysign(zero, plain), near));
  }
};

/// What is left of x by C's division: of x's sign.
struct Fmod : OnNumbers<2> {
  static constexpr char name[] = "fmod";
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    return fmod(x, y);
  }
};

/// What is left of x by Python's division: of y's sign.
struct Remainder : OnNumbers<2> {
  static constexpr char name[] = "remainder";
  WICK_HOST_DEVICE Integer operator()(Integer x, Integer y) const {
    const Integer rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
  template <class V>
  WICK_HOST_DEVICE V operator()(V x, V y) const {
    const V zero = V(0), one = V(1), rest = fmod(x, y);
    const V against = select(rest < zero, one, zero) - select(y < zero, one, zero);
    return select(rest == zero, rest, select(against == zero, rest, rest + y));
  }
};

// --- Bits ---------------------------------------------------------------------------------------

/// Shifts beyond the width leave the sign's bits, or none.
struct LeftShift : OnIntegers<2> {
  static constexpr char name[] = "bitwise_left_shift";
  WICK_HOST_DEVICE Integer operator()(Integer x, Integer y) const {
    return y < 0 || y > 63 ? Integer(0) : Integer::wrap(x.bits() << y.bits());
  }
};
struct RightShift : OnIntegers<2> {
  static constexpr char name[] = "bitwise_right_shift";
  WICK_HOST_DEVICE Integer operator()(Integer x, Integer y) const {
    return x.value >> (y < 0 || y > 63 ? 63 : y.value);
  }
};

}  // namespace wick::fn

/// The functors of this file that have a gradient, for lists of kernels: `use(F)` each.
#define WICK_SPECIAL_DIFFERENTIABLE(use)                                                       \
  use(fn::Exp2) use(fn::Log10) use(fn::Asin) use(fn::Acos) use(fn::Atan) use(fn::Sinh)         \
      use(fn::Cosh) use(fn::Asinh) use(fn::Acosh) use(fn::Atanh) use(fn::Erfc) use(fn::Erfinv) \
          use(fn::Lgamma) use(fn::Digamma) use(fn::Frac) use(fn::Sinc) use(fn::NanToNum)

/// Those without: gradients that are ops of their own, or none.
#define WICK_SPECIAL_PLAIN(use)                                                        \
  use(fn::Trigamma) use(fn::Copysign) use(fn::Hypot) use(fn::Xlogy) use(fn::Logaddexp) \
      use(fn::Logaddexp2) use(fn::TruncDivide) use(fn::FloorDivide) use(fn::Fmod)      \
          use(fn::Remainder) use(fn::LeftShift) use(fn::RightShift)
