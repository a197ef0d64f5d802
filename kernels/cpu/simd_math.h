#pragma once

#include <math.h>

#include "wick/kernels/cpu/simd.h"

// Mathematical functions of vectors. Those of floats are within a few 1e-7 relative of the true
// value wherever that is a normal number, denormal results and arguments are treated as such, and
// infinities and NaN give what the C library gives. Those of doubles call the C library lane by
// lane: only gradient checks compute in double. The polynomials are minimax fits.
namespace wick::WICK_ISA {

/// Sum of c[i] x^i.
template <class T, class... Rest>
WICK_INLINE Vec<T> polynomial(Vec<T> x, T c0, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return Vec<T>(c0);
  } else {
    return fma(polynomial(x, rest...), x, Vec<T>(c0));
  }
}

/// x 2^n for whole n in [-250, 250].
WICK_INLINE VecF ldexp(VecF x, VecF n) {
#ifdef __AVX512F__
  return VecF(_mm512_maskz_scalef_ps(0xffff, x.reg, n.reg));
#else
  const VecF half = floor(n * 0.5f);
  const VecF power[2] = {half, n - half};
  for (const VecF p : power) {  // twice: 2^n itself may be out of range
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(p.reg), _mm256_set1_epi32(127));
    x *= VecF(_mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
  }
  return x;
#endif
}

/// Splits positive x into m 2^e with m in [1/sqrt 2, sqrt 2).
WICK_INLINE void split_exponent(VecF x, VecF& m, VecF& e) {
#ifdef __AVX512F__
  m = VecF(_mm512_maskz_getmant_ps(0xffff, x.reg, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src));
  e = VecF(_mm512_maskz_getexp_ps(0xffff, x.reg));
  const Mask<float> above = m >= 0x1.6a09e6p+0f;  // sqrt 2, as below
  m = select(above, m * 0.5f, m);
  e = select(above, e + 1.0f, e);
#else
  const Mask<float> denormal = x < 0x1p-126f;
  x = select(denormal, x * 0x1p24f, x);
  const __m256i root = _mm256_set1_epi32(0x3f3504f3);  // 1/sqrt 2
  const __m256i shifted = _mm256_sub_epi32(_mm256_castps_si256(x.reg), root);
  const __m256i mantissa = _mm256_and_si256(shifted, _mm256_set1_epi32(0x7fffff));
  m = VecF(_mm256_castsi256_ps(_mm256_add_epi32(mantissa, root)));
  e = VecF(_mm256_cvtepi32_ps(_mm256_srai_epi32(shifted, 23)));
  e = select(denormal, e - 24.0f, e);
#endif
}

constexpr float kInfinity = __builtin_inff();
constexpr float kNaN = __builtin_nanf("");
constexpr float kLog2e = 1.44269504f;
constexpr float kLn2High = 0x1.62e4p-1f;  // few bits: its products with exponents are exact
constexpr float kLn2Low = 0x1.7f7d1cp-20f;

/// r in [-ln2 / 2, ln2 / 2] with x = n ln2 + r.
WICK_INLINE VecF reduce_ln2(VecF x, VecF& n) {
  n = round(x * kLog2e);
  return fma(n, -kLn2Low, fma(n, -kLn2High, x));
}

WICK_INLINE VecF exp(VecF x) {
  // The order of the arguments lets NaN through.
  VecF bounded = min_or_second(89.0f, x);
#ifdef __AVX512F__
  // Lanes whose result is 0 are left out: on some processors an underflow takes 75 ns.
  const __mmask16 lanes = _mm512_cmp_ps_mask(bounded.reg, VecF(-104.0f).reg, _CMP_NLT_UQ);
#else
  bounded = max_or_second(-104.0f, bounded);
#endif
  VecF n;
  const VecF r = reduce_ln2(bounded, n);
  const VecF q = polynomial(r, 4.999999305e-01f, 1.666651479e-01f, 4.166845683e-02f,
                            8.369419043e-03f, 1.381314236e-03f);
  const VecF y = fma(r * r, q, r) + 1.0f;
#ifdef __AVX512F__
  return VecF(_mm512_maskz_scalef_ps(lanes, y.reg, n.reg));
#else
  return ldexp(y, n);
#endif
}

WICK_INLINE VecF expm1(VecF x) {
  const VecF bounded = max_or_second(-20.0f, min_or_second(89.0f, x));
  VecF n;
  const VecF r = reduce_ln2(bounded, n);
  const VecF q = polynomial(r, 5.000000049e-01f, 1.666666682e-01f, 4.166634188e-02f,
                            8.333271718e-03f, 1.394205982e-03f, 1.991503297e-04f);
  const VecF less_one = 1.0f - ldexp(1.0f, -n);
  const VecF y = ldexp(fma(r * r, q, r) + less_one, n);
  return select(x == 0.0f, x, y);  // keeps the sign of zero
}

WICK_INLINE VecF log(VecF x) {
  VecF m, e;
  split_exponent(x, m, e);
  const VecF f = m - 1.0f;
  const VecF p = polynomial(f, 3.333331260e-01f, -2.500000960e-01f, 2.000211873e-01f,
                            -1.666799567e-01f, 1.421955091e-01f, -1.240559142e-01f,
                            1.188817460e-01f, -1.167564130e-01f, 6.746601318e-02f);
  const VecF f2 = f * f;
  VecF y = fma(f2 * f, p, fma(e, kLn2Low, f2 * -0.5f));
  y = fma(e, kLn2High, f + y);
  y = select(x == kInfinity, x, y);
  y = select(x == 0.0f, -kInfinity, y);
  return select((x < 0.0f) | isnan(x), kNaN, y);
}

WICK_INLINE VecF log1p(VecF x) {
  const VecF u = 1.0f + x;
  const VecF lost = x - (u - 1.0f);  // what 1 + x rounded away
  const VecF y = log(u) + lost / u;
  return select((u == 1.0f) | (u == kInfinity), x, select(u == 0.0f, -kInfinity, y));
}

WICK_INLINE VecF tanh(VecF x) {
  const VecF t = expm1(min_or_second(10.0f, abs(x)) * 2.0f);
  return copysign(t / (t + 2.0f), x);
}

WICK_INLINE VecF erf(VecF x) {
  const VecF s = x * x;
  const VecF p =
      polynomial(s, 1.283791657e-01f, -3.761262582e-01f, 1.128358515e-01f, -2.685381187e-02f,
                 5.188327560e-03f, -8.010192519e-04f, 7.853857702e-05f);
  const VecF near = fma(x, p, x);
  const VecF t = min_or_second(abs(x), 4.0f);
  const VecF q =
      polynomial(t, 1.128694337e+00f, 6.349695309e-01f, 1.065308657e-01f, -2.401006884e-02f,
                 3.757476908e-03f, -3.505920482e-04f, 1.396244413e-05f);
  const VecF far = 1.0f - exp(-t * q);
  return select(abs(x) > 1.0f, copysign(far, x), near);
}

template <class T>
WICK_INLINE Vec<T> sigmoid(Vec<T> x) {
  return T(1) / (T(1) + exp(-x));
}

/// Lane by lane by a function of the C library.
#define WICK_EACH_LANE(type, name, function)         \
  WICK_INLINE Vec<type> name(Vec<type> x) {          \
    type lanes[Vec<type>::size];                     \
    x.store(lanes);                                  \
    for (type & lane : lanes) lane = function(lane); \
    return Vec<type>::load(lanes);                   \
  }
WICK_EACH_LANE(double, exp, ::exp)
WICK_EACH_LANE(double, expm1, ::expm1)
WICK_EACH_LANE(double, log, ::log)
WICK_EACH_LANE(double, log1p, ::log1p)
WICK_EACH_LANE(double, tanh, ::tanh)
WICK_EACH_LANE(double, erf, ::erf)
WICK_EACH_LANE(double, sin, ::sin)
WICK_EACH_LANE(double, cos, ::cos)
WICK_EACH_LANE(float, sin_by_lane, ::sinf)
WICK_EACH_LANE(float, cos_by_lane, ::cosf)
#undef WICK_EACH_LANE

/// sin(r + quarters pi/2) for the r that is left of x, |x| < 1e5.
WICK_INLINE VecF sin_quarters(VecF x, float quarters) {
  const VecF n = round(x * 0.636619772f);
  VecF r = fma(n, -0x1.921fb6p+0f, x);  // pi/2 in three pieces
  r = fma(n, 0x1.777a5cp-25f, r);
  r = fma(n, 0x1.ee59dap-50f, r);
  const VecF s = r * r;
  const VecF sine =
      fma(r * s, polynomial(s, -1.666665423e-01f, 8.332131488e-03f, -1.951083814e-04f), r);
  const VecF c = polynomial(s, 4.166664565e-02f, -1.388730602e-03f, 2.443120315e-05f);
  const VecF cosine = fma(s * s, c, fma(s, -0.5f, 1.0f));
  const VecF k = n + quarters;
  const VecF quadrant = k - floor(k * 0.25f) * 4.0f;
  const VecF y = select((quadrant == 1.0f) | (quadrant == 3.0f), cosine, sine);
  return select(quadrant >= 2.0f, -y, y);
}
WICK_INLINE VecF sin(VecF x) {
  const Mask<float> large = !(abs(x) < 1e5f);
  const VecF y = sin_quarters(x, 0.0f);
  return any(large) ? select(large, sin_by_lane(x), select(x == 0.0f, x, y))
                    : select(x == 0.0f, x, y);
}
WICK_INLINE VecF cos(VecF x) {
  const Mask<float> large = !(abs(x) < 1e5f);
  const VecF y = sin_quarters(x, 1.0f);
  return any(large) ? select(large, cos_by_lane(x), y) : y;
}

WICK_INLINE VecF pow(VecF x, VecF y) {
  float a[VecF::size], b[VecF::size];
  x.store(a);
  y.store(b);
  for (int64_t i = 0; i < VecF::size; ++i) a[i] = ::powf(a[i], b[i]);
  return VecF::load(a);
}
WICK_INLINE VecD pow(VecD x, VecD y) {
  double a[VecD::size], b[VecD::size];
  x.store(a);
  y.store(b);
  for (int64_t i = 0; i < VecD::size; ++i) a[i] = ::pow(a[i], b[i]);
  return VecD::load(a);
}

}  // namespace wick::WICK_ISA
