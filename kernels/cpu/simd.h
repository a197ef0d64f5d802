#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "wick/core/base/half.h"
#include "wick/core/base/macros.h"

// Vectors of floats or doubles as wide as the instruction set that this file is compiled for has
// them. Everything is inlined and lives in that instruction set's namespace.
#ifdef __AVX512F__
#define WICK_MM(function) _mm512_##function
#define WICK_WIDE(avx512, avx2) avx512
#else
#define WICK_MM(function) _mm256_##function
#define WICK_WIDE(avx512, avx2) avx2
#endif

/// Inlined where it is called, and all that it calls is inlined into it: for loops that take their
/// body as a lambda, which compilers else leave out of line when it is called from several places.
/// g++ does so by its limits of size alone, unless the function around is itself [[gnu::flatten]].
#define WICK_INLINE_ALL WICK_INLINE __attribute__((flatten))

namespace wick::WICK_ISA {

/// Results of about this many bytes and more are written past the caches.
inline constexpr int64_t kStreamBytes = int64_t{2} << 20;

template <class T>
struct VecTraits;
template <>
struct VecTraits<float> {
  using Reg = WICK_WIDE(__m512, __m256);
  using MaskReg = WICK_WIDE(__mmask16, __m256);
};
template <>
struct VecTraits<double> {
  using Reg = WICK_WIDE(__m512d, __m256d);
  using MaskReg = WICK_WIDE(__mmask8, __m256d);
};

/// One truth value per lane of a Vec<T>.
template <class T>
struct Mask {
  typename VecTraits<T>::MaskReg reg;
};

template <class T>
struct Vec;

/// The first `n` lanes of a Vec<T>, from none to all. Loads and stores touch no other element.
template <class T>
class FirstLanes {
 public:
  WICK_INLINE explicit FirstLanes(int64_t n);
  /// The other lanes are 0.
  WICK_INLINE Vec<T> load(const T* p) const;
  WICK_INLINE void store(Vec<T> v, T* p) const;

 private:
  WICK_WIDE(typename VecTraits<T>::MaskReg, __m256i) mask_;
};

/// As many T (float or double) as fit a register.
template <class T>
struct Vec {
  using Element = T;
  using Reg = typename VecTraits<T>::Reg;
  static constexpr int64_t size = sizeof(Reg) / sizeof(T);

  Reg reg;

  Vec() = default;
  WICK_INLINE explicit Vec(Reg r) : reg(r) {}
  /// All lanes `x`.
  WICK_INLINE Vec(T x);

  /// `size` elements from `p`, converted; no alignment needed.
  template <class S>
  WICK_INLINE static Vec load(const S* p);
  /// The first `n` < size elements from `p`; the other lanes are 0.
  template <class S>
  WICK_INLINE static Vec load_partial(const S* p, int64_t n) {
    if constexpr (std::is_same_v<S, T>) {
      return FirstLanes<T>(n).load(p);
    } else {
      S padded[size] = {};
      for (int64_t i = 0; i < n; ++i) padded[i] = p[i];
      return load(padded);
    }
  }
  /// Writes all lanes to `p`, rounded to S once.
  template <class S>
  WICK_INLINE void store(S* p) const;
  template <class S>
  WICK_INLINE void store_partial(S* p, int64_t n) const {
    if constexpr (std::is_same_v<S, T>) {
      FirstLanes<T>(n).store(*this, p);
    } else {
      S padded[size];
      store(padded);
      for (int64_t i = 0; i < n; ++i) p[i] = padded[i];
    }
  }
  /// Writes past the caches; `p` must be aligned to the register's size, and stream_fence() must
  /// follow the last one.
  WICK_INLINE void stream(T* p) const;

  WICK_INLINE Vec& operator+=(Vec b) { return *this = *this + b; }
  WICK_INLINE Vec& operator-=(Vec b) { return *this = *this - b; }
  WICK_INLINE Vec& operator*=(Vec b) { return *this = *this * b; }
  WICK_INLINE Vec& operator/=(Vec b) { return *this = *this / b; }
  friend WICK_INLINE Vec operator+(Vec a, Vec b) { return Vec(a.reg + b.reg); }
  friend WICK_INLINE Vec operator-(Vec a, Vec b) { return Vec(a.reg - b.reg); }
  friend WICK_INLINE Vec operator*(Vec a, Vec b) { return Vec(a.reg * b.reg); }
  friend WICK_INLINE Vec operator/(Vec a, Vec b) { return Vec(a.reg / b.reg); }
  friend WICK_INLINE Vec operator-(Vec a) { return Vec(-a.reg); }
};

using VecF = Vec<float>;
using VecD = Vec<double>;

template <>
WICK_INLINE VecF::Vec(float x) : reg(WICK_MM(set1_ps)(x)) {}
template <>
WICK_INLINE VecD::Vec(double x) : reg(WICK_MM(set1_pd)(x)) {}

/// Call after the last stream().
WICK_INLINE void stream_fence() { _mm_sfence(); }

// --- Loads and stores
// -----------------------------------------------------------------------------

template <>
template <>
WICK_INLINE VecF VecF::load(const float* p) {
  return VecF(WICK_MM(loadu_ps)(p));
}
template <>
template <>
WICK_INLINE VecD VecD::load(const double* p) {
  return VecD(WICK_MM(loadu_pd)(p));
}
template <>
template <>
WICK_INLINE VecF VecF::load(const Half* p) {
  return VecF(WICK_WIDE(
      _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
      _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))));
}
template <>
template <>
WICK_INLINE VecF VecF::load(const BFloat16* p) {
  const auto wide = WICK_WIDE(
      _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  return VecF(WICK_WIDE(_mm512_castsi512_ps, _mm256_castsi256_ps)(
      WICK_WIDE(_mm512_maskz_slli_epi32(0xffff, wide, 16), _mm256_slli_epi32(wide, 16))));
}
template <>
template <>
WICK_INLINE VecF VecF::load(const uint8_t* p) {
  return VecF(WICK_WIDE(
      _mm512_maskz_cvtepi32_ps(
          0xffff,
          _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))),
      _mm256_cvtepi32_ps(
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))));
}
template <class T>
template <class S>
WICK_INLINE Vec<T> Vec<T>::load(const S* p) {
  T lanes[size];
  for (int64_t i = 0; i < size; ++i) lanes[i] = static_cast<T>(p[i]);
  return load(static_cast<const T*>(lanes));
}

template <>
template <>
WICK_INLINE void VecF::store(float* p) const {
  WICK_MM(storeu_ps)(p, reg);
}
template <>
template <>
WICK_INLINE void VecD::store(double* p) const {
  WICK_MM(storeu_pd)(p, reg);
}
template <>
template <>
WICK_INLINE void VecF::store(Half* p) const {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#ifdef __AVX512F__
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_maskz_cvtps_ph(0xffff, reg, kNearest));
#else
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(reg, kNearest));
#endif
}
/// Lanes whose upper half is x rounded to bfloat16; the lower half is any.
WICK_INLINE auto bfloat16_lanes(VecF x) {
#ifdef __AVX512F__
  const __m512i bits = _mm512_castps_si512(x.reg);
  const __m512i odd =
      _mm512_and_si512(_mm512_maskz_srli_epi32(0xffff, bits, 16), _mm512_set1_epi32(1));
  const __m512i r = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x.reg, x.reg, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(r, nan, bits, _mm512_set1_epi32(0x400000));
#else
  const __m256i bits = _mm256_castps_si256(x.reg);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i r = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x.reg, x.reg, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(r, quiet, nan);
#endif
}
template <>
template <>
WICK_INLINE void VecF::store(BFloat16* p) const {
  const auto lanes = bfloat16_lanes(*this);
#ifdef __AVX512F__
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(p),
      _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, lanes, 16)));
#else
  const __m256i r = _mm256_srli_epi32(lanes, 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
#endif
}
template <class T>
template <class S>
WICK_INLINE void Vec<T>::store(S* p) const {
  T lanes[size];
  store(static_cast<T*>(lanes));
  for (int64_t i = 0; i < size; ++i) p[i] = static_cast<S>(lanes[i]);
}
/// x as it is after it was stored as S.
template <class S>
WICK_INLINE VecF rounded(VecF x) {
  if constexpr (std::is_same_v<S, float>) {
    return x;
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    const auto upper = WICK_MM(set1_epi32)(static_cast<int>(0xffff0000));
    return VecF(WICK_WIDE(_mm512_castsi512_ps(_mm512_and_si512(bfloat16_lanes(x), upper)),
                          _mm256_castsi256_ps(_mm256_and_si256(bfloat16_lanes(x), upper))));
  } else {
    S lanes[VecF::size];
    x.store(lanes);
    return VecF::load(static_cast<const S*>(lanes));
  }
}
template <>
WICK_INLINE void VecF::stream(float* p) const {
  WICK_MM(stream_ps)(p, reg);
}
template <>
WICK_INLINE void VecD::stream(double* p) const {
  WICK_MM(stream_pd)(p, reg);
}

#ifdef __AVX512F__
template <class T>
WICK_INLINE FirstLanes<T>::FirstLanes(int64_t n)
    : mask_(static_cast<typename VecTraits<T>::MaskReg>((1u << n) - 1)) {}
template <>
WICK_INLINE VecF FirstLanes<float>::load(const float* p) const {
  return VecF(_mm512_maskz_loadu_ps(mask_, p));
}
template <>
WICK_INLINE VecD FirstLanes<double>::load(const double* p) const {
  return VecD(_mm512_maskz_loadu_pd(mask_, p));
}
template <>
WICK_INLINE void FirstLanes<float>::store(VecF v, float* p) const {
  _mm512_mask_storeu_ps(p, mask_, v.reg);
}
template <>
WICK_INLINE void FirstLanes<double>::store(VecD v, double* p) const {
  _mm512_mask_storeu_pd(p, mask_, v.reg);
}
#else
template <>
WICK_INLINE FirstLanes<float>::FirstLanes(int64_t n)
    : mask_(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                               _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))) {}
template <>
WICK_INLINE FirstLanes<double>::FirstLanes(int64_t n)
    : mask_(_mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3))) {}
template <>
WICK_INLINE VecF FirstLanes<float>::load(const float* p) const {
  return VecF(_mm256_maskload_ps(p, mask_));
}
template <>
WICK_INLINE VecD FirstLanes<double>::load(const double* p) const {
  return VecD(_mm256_maskload_pd(p, mask_));
}
template <>
WICK_INLINE void FirstLanes<float>::store(VecF v, float* p) const {
  _mm256_maskstore_ps(p, mask_, v.reg);
}
template <>
WICK_INLINE void FirstLanes<double>::store(VecD v, double* p) const {
  _mm256_maskstore_pd(p, mask_, v.reg);
}
#endif

// --- Comparison and selection
// ---------------------------------------------------------------------

#ifdef __AVX512F__
#define WICK_COMPARE(name, predicate)                     \
  WICK_INLINE Mask<float> name(VecF a, VecF b) {          \
    return {_mm512_cmp_ps_mask(a.reg, b.reg, predicate)}; \
  }                                                       \
  WICK_INLINE Mask<double> name(VecD a, VecD b) {         \
    return {_mm512_cmp_pd_mask(a.reg, b.reg, predicate)}; \
  }
#else
#define WICK_COMPARE(name, predicate)                \
  WICK_INLINE Mask<float> name(VecF a, VecF b) {     \
    return {_mm256_cmp_ps(a.reg, b.reg, predicate)}; \
  }                                                  \
  WICK_INLINE Mask<double> name(VecD a, VecD b) { return {_mm256_cmp_pd(a.reg, b.reg, predicate)}; }
#endif
WICK_COMPARE(operator==, _CMP_EQ_OQ)
WICK_COMPARE(operator!=, _CMP_NEQ_UQ)
WICK_COMPARE(operator<, _CMP_LT_OQ)
WICK_COMPARE(operator<=, _CMP_LE_OQ)
WICK_COMPARE(operator>, _CMP_GT_OQ)
WICK_COMPARE(operator>=, _CMP_GE_OQ)
WICK_COMPARE(either_nan, _CMP_UNORD_Q)
#undef WICK_COMPARE

/// Lanes of `a` where the mask is set, of `b` elsewhere.
WICK_INLINE VecF select(Mask<float> m, VecF a, VecF b) {
  return VecF(
      WICK_WIDE(_mm512_mask_blend_ps(m.reg, b.reg, a.reg), _mm256_blendv_ps(b.reg, a.reg, m.reg)));
}
WICK_INLINE VecD select(Mask<double> m, VecD a, VecD b) {
  return VecD(
      WICK_WIDE(_mm512_mask_blend_pd(m.reg, b.reg, a.reg), _mm256_blendv_pd(b.reg, a.reg, m.reg)));
}

/// One bit per lane, the first lane lowest.
WICK_INLINE uint32_t bits(Mask<float> m) {
  return WICK_WIDE(m.reg, static_cast<uint32_t>(_mm256_movemask_ps(m.reg)));
}
WICK_INLINE uint32_t bits(Mask<double> m) {
  return WICK_WIDE(m.reg, static_cast<uint32_t>(_mm256_movemask_pd(m.reg)));
}
template <class T>
WICK_INLINE bool any(Mask<T> m) {
  return bits(m) != 0;
}
template <class T>
WICK_INLINE bool all(Mask<T> m) {
  return bits(m) == (1u << Vec<T>::size) - 1;
}

#ifdef __AVX512F__
template <class T>
WICK_INLINE Mask<T> operator&(Mask<T> a, Mask<T> b) {
  return {static_cast<typename VecTraits<T>::MaskReg>(a.reg & b.reg)};
}
template <class T>
WICK_INLINE Mask<T> operator|(Mask<T> a, Mask<T> b) {
  return {static_cast<typename VecTraits<T>::MaskReg>(a.reg | b.reg)};
}
template <class T>
WICK_INLINE Mask<T> operator!(Mask<T> a) {
  return {static_cast<typename VecTraits<T>::MaskReg>(~a.reg)};
}
#else
WICK_INLINE Mask<float> operator&(Mask<float> a, Mask<float> b) {
  return {_mm256_and_ps(a.reg, b.reg)};
}
WICK_INLINE Mask<double> operator&(Mask<double> a, Mask<double> b) {
  return {_mm256_and_pd(a.reg, b.reg)};
}
WICK_INLINE Mask<float> operator|(Mask<float> a, Mask<float> b) {
  return {_mm256_or_ps(a.reg, b.reg)};
}
WICK_INLINE Mask<double> operator|(Mask<double> a, Mask<double> b) {
  return {_mm256_or_pd(a.reg, b.reg)};
}
WICK_INLINE Mask<float> operator!(Mask<float> a) {
  return {_mm256_xor_ps(a.reg, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))};
}
WICK_INLINE Mask<double> operator!(Mask<double> a) {
  return {_mm256_xor_pd(a.reg, _mm256_castsi256_pd(_mm256_set1_epi32(-1)))};
}
#endif

template <class T>
WICK_INLINE Mask<T> isnan(Vec<T> a) {
  return either_nan(a, a);
}

// --- Arithmetic that is one instruction or a few
// --------------------------------------------------

/// a * b + c, rounded once.
WICK_INLINE VecF fma(VecF a, VecF b, VecF c) {
  return VecF(WICK_MM(fmadd_ps)(a.reg, b.reg, c.reg));
}
WICK_INLINE VecD fma(VecD a, VecD b, VecD c) {
  return VecD(WICK_MM(fmadd_pd)(a.reg, b.reg, c.reg));
}
// GCC 12 warns of an uninitialised operand inside the plain forms of some AVX-512 intrinsics, hence
// the forms with a full mask; the code is the same.
#define WICK_BINARY(name, intrinsic)                                           \
  WICK_INLINE VecF name(VecF a, VecF b) {                                      \
    return VecF(WICK_WIDE(_mm512_maskz_##intrinsic##_ps(0xffff, a.reg, b.reg), \
                          _mm256_##intrinsic##_ps(a.reg, b.reg)));             \
  }                                                                            \
  WICK_INLINE VecD name(VecD a, VecD b) {                                      \
    return VecD(WICK_WIDE(_mm512_maskz_##intrinsic##_pd(0xff, a.reg, b.reg),   \
                          _mm256_##intrinsic##_pd(a.reg, b.reg)));             \
  }
WICK_BINARY(max_or_second, max)  // `b` if either is NaN; one instruction
WICK_BINARY(min_or_second, min)
#undef WICK_BINARY

/// The larger one; NaN if either is NaN.
template <class T>
WICK_INLINE Vec<T> max(Vec<T> a, std::type_identity_t<Vec<T>> b) {
  return select(isnan(a), a, max_or_second(a, b));
}
/// The smaller one; NaN if either is NaN.
template <class T>
WICK_INLINE Vec<T> min(Vec<T> a, std::type_identity_t<Vec<T>> b) {
  return select(isnan(a), a, min_or_second(a, b));
}

WICK_INLINE VecF sqrt(VecF a) {
  return VecF(WICK_WIDE(_mm512_maskz_sqrt_ps(0xffff, a.reg), _mm256_sqrt_ps(a.reg)));
}
WICK_INLINE VecD sqrt(VecD a) {
  return VecD(WICK_WIDE(_mm512_maskz_sqrt_pd(0xff, a.reg), _mm256_sqrt_pd(a.reg)));
}
template <class T>
WICK_INLINE Vec<T> rsqrt(Vec<T> a) {
  return Vec<T>(1) / sqrt(a);
}
WICK_INLINE VecF abs(VecF a) { return VecF(WICK_MM(andnot_ps)(VecF(-0.0f).reg, a.reg)); }
WICK_INLINE VecD abs(VecD a) { return VecD(WICK_MM(andnot_pd)(VecD(-0.0).reg, a.reg)); }
/// The magnitude of `a` with the sign of `b`.
WICK_INLINE VecF copysign(VecF a, VecF b) {
  return VecF(WICK_MM(or_ps)(abs(a).reg, WICK_MM(and_ps)(VecF(-0.0f).reg, b.reg)));
}
WICK_INLINE VecD copysign(VecD a, VecD b) {
  return VecD(WICK_MM(or_pd)(abs(a).reg, WICK_MM(and_pd)(VecD(-0.0).reg, b.reg)));
}

#define WICK_ROUND(name, mode)                                                                     \
  WICK_INLINE VecF name(VecF a) {                                                                  \
    return VecF(                                                                                   \
        WICK_WIDE(_mm512_maskz_roundscale_ps(0xffff, a.reg, mode), _mm256_round_ps(a.reg, mode))); \
  }                                                                                                \
  WICK_INLINE VecD name(VecD a) {                                                                  \
    return VecD(                                                                                   \
        WICK_WIDE(_mm512_maskz_roundscale_pd(0xff, a.reg, mode), _mm256_round_pd(a.reg, mode)));   \
  }
WICK_ROUND(floor, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
WICK_ROUND(ceil, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)
WICK_ROUND(trunc, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
WICK_ROUND(round, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)  // halves to even, as PyTorch
#undef WICK_ROUND

/// The lower and the upper half of the lanes, as doubles.
WICK_INLINE VecD low_doubles(VecF v) {
  return VecD(WICK_WIDE(_mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, v.reg, 0)),
                        _mm256_cvtps_pd(_mm256_castps256_ps128(v.reg))));
}
WICK_INLINE VecD high_doubles(VecF v) {
  return VecD(WICK_WIDE(_mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, v.reg, 1)),
                        _mm256_cvtps_pd(_mm256_extractf128_ps(v.reg, 1))));
}

}  // namespace wick::WICK_ISA
