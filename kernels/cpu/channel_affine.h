#pragma once

#include "wick/kernels/cpu/rows.h"

// What batch and group norm do to every element: y = (x - center) * scale + shift per channel, plus
// a residual, through a ReLU; and back.
namespace wick::WICK_ISA {

/// The lanes whose bits are set.
WICK_INLINE Mask<float> mask_of_bits(uint32_t bits, float) {
#ifdef __AVX512F__
  return {static_cast<__mmask16>(bits)};
#else
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i hit = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lane);
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(hit, lane))};
#endif
}
WICK_INLINE Mask<double> mask_of_bits(uint32_t bits, double) {
#ifdef __AVX512F__
  return {static_cast<__mmask8>(bits)};
#else
  const __m256i lane = _mm256_setr_epi64x(1, 2, 4, 8);
  const __m256i hit = _mm256_and_si256(_mm256_set1_epi64x(static_cast<int64_t>(bits)), lane);
  return {_mm256_castsi256_pd(_mm256_cmpeq_epi64(hit, lane))};
#endif
}

/// One row of a ReLU's mask: the bits of one vector of L in one or two bytes.
template <class L>
struct MaskRow {
  static constexpr int64_t kLanes = Vec<L>::size, kBytes = (kLanes + 7) / 8;

  uint8_t* bytes = nullptr;

  WICK_INLINE void put(int64_t i, uint32_t bits) const {
    uint8_t* p = bytes + i / kLanes * kBytes;
    p[0] = static_cast<uint8_t>(bits);
    if constexpr (kBytes == 2) p[1] = static_cast<uint8_t>(bits >> 8);
  }
  WICK_INLINE Mask<L> get(int64_t i) const {
    const uint8_t* p = bytes + i / kLanes * kBytes;
    uint32_t bits = p[0];
    if constexpr (kBytes == 2) bits |= static_cast<uint32_t>(p[1]) << 8;
    return mask_of_bits(bits, L{});
  }
  /// `g` where the ReLU let pass; all of it without a ReLU.
  WICK_INLINE Vec<L> apply(Vec<L> g, int64_t i) const {
    return bytes == nullptr ? g : select(get(i), g, Vec<L>(0));
  }
};

/// ForwardCoefficients or BackwardCoefficients, one of each per channel.
template <class L>
struct Coefficients {
  L *center, *a, *b, *c;

  WICK_INLINE Coefficients of_channel(int64_t i) const { return {center + i, a + i, b + i, c + i}; }
};

/// The coefficients at element `i` of a row: one channel per element, or one for the whole row.
template <class L, bool kPerElement>
WICK_INLINE Vec<L> coefficient(const L* p, int64_t i, int64_t n) {
  if constexpr (kPerElement) return load_up_to<L>(p + i, n);
  return Vec<L>(*p);
}

template <class L, bool kPerElement, class T>
WICK_INLINE void affine_row(const T* x, const T* residual, T* y, int64_t size,
                            const Coefficients<L>& k, bool relu, const MaskRow<L>& mask,
                            bool stream) {
  for_vectors<L>(size, [&](int64_t i, int64_t n) {
    const auto at = [&](const L* p) { return coefficient<L, kPerElement>(p, i, n); };
    Vec<L> v = fma(load_up_to<L>(x + i, n) - at(k.center), at(k.a), at(k.b));
    if (residual != nullptr) v += load_up_to<L>(residual + i, n);
    if (relu) {
      const Mask<L> pass = !(v <= Vec<L>(0));
      if (mask.bytes != nullptr) mask.put(i, bits(pass));
      v = select(pass, v, Vec<L>(0));
    }
    put(v, y + i, n, stream);
  });
}

template <class L, bool kPerElement, class T>
WICK_INLINE void affine_row_backward(const T* dy, const T* x, T* dx, T* dresidual, int64_t size,
                                     const Coefficients<L>& k, const MaskRow<L>& mask,
                                     bool stream) {
  for_vectors<L>(size, [&](int64_t i, int64_t n) {
    const auto at = [&](const L* p) { return coefficient<L, kPerElement>(p, i, n); };
    const Vec<L> g = mask.apply(load_up_to<L>(dy + i, n), i);
    const Vec<L> d = load_up_to<L>(x + i, n) - at(k.center);
    put(fma(g, at(k.a), fma(d, at(k.b), at(k.c))), dx + i, n, stream);
    if (dresidual != nullptr) put(g, dresidual + i, n, stream);
  });
}

/// Sums of g = dy through the mask, and of g * (x - center), of V vectors of columns over `rows`
/// rows; `left` lanes of the last vector count.
template <class L, int V, class T>
WICK_INLINE_ALL void column_dots_block(const T* dy, const T* x, int64_t rows, int64_t stride,
                                       const uint8_t* mask, int64_t mask_stride, int64_t mask_at,
                                       int64_t left, const L* center, L* sums, L* dots) {
  constexpr int64_t kLanes = Vec<L>::size;
  const auto load = [&](const T* p) { return V > 1 ? Vec<L>::load(p) : load_up_to<L>(p, left); };
  Vec<L> s[V], d[V], o[V];
  for (int v = 0; v < V; ++v) {
    s[v] = d[v] = Vec<L>(0);
    o[v] = V > 1 ? Vec<L>::load(center + v * kLanes) : load_up_to<L>(center, left);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const MaskRow<L> m{mask == nullptr ? nullptr : const_cast<uint8_t*>(mask) + r * mask_stride};
    for (int v = 0; v < V; ++v) {
      const int64_t at = r * stride + v * kLanes;
      const Vec<L> g = m.apply(load(dy + at), mask_at + v * kLanes);
      s[v] += g;
      d[v] = fma(g, load(x + at) - o[v], d[v]);
    }
  }
  for (int v = 0; v < V; ++v) {
    s[v].store(sums + v * kLanes);
    d[v].store(dots + v * kLanes);
  }
}

/// For each of `channels` columns over `rows` rows: sum[c] of g, and dot[c] of g * (x - center).
template <class L, class T>
[[gnu::noinline, gnu::flatten]] void column_dots(const T* dy, const T* x, int64_t rows,
                                                 int64_t channels, const uint8_t* mask,
                                                 int64_t mask_stride, const L* center, double* sum,
                                                 double* dot) {
  constexpr int64_t kLanes = Vec<L>::size, kRows = 64, kWide = 4;
  for (int64_t c = 0; c < channels; ++c) sum[c] = dot[c] = 0;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = rows - first < kRows ? rows - first : kRows;
    const uint8_t* m = mask == nullptr ? nullptr : mask + first * mask_stride;
    for (int64_t c = 0; c < channels;) {
      alignas(64) L sums[kLanes * kWide], dots[kLanes * kWide];
      const int64_t at = first * channels + c;
      int64_t used = channels - c;
      if (used >= kLanes * kWide) {
        used = kLanes * kWide;
        column_dots_block<L, kWide>(dy + at, x + at, count, channels, m, mask_stride, c, kLanes,
                                    center + c, sums, dots);
      } else {
        used = used < kLanes ? used : kLanes;
        column_dots_block<L, 1>(dy + at, x + at, count, channels, m, mask_stride, c, used,
                                center + c, sums, dots);
      }
      for (int64_t i = 0; i < used; ++i) {
        sum[c + i] += static_cast<double>(sums[i]);
        dot[c + i] += static_cast<double>(dots[i]);
      }
      c += used;
    }
  }
}

/// The same sums over one row of one channel, added to *sum and *dot.
template <class L, class T>
[[gnu::noinline, gnu::flatten]] void row_dots(const T* dy, const T* x, int64_t size,
                                              const MaskRow<L>& mask, L center, double* sum,
                                              double* dot) {
  const Vec<L> o(center);
  *sum += sum_row<L>(size,
                     [&](int64_t i, int64_t n) { return mask.apply(load_up_to<L>(dy + i, n), i); });
  *dot += sum_row<L>(size, [&](int64_t i, int64_t n) {
    return mask.apply(load_up_to<L>(dy + i, n), i) * (load_up_to<L>(x + i, n) - o);
  });
}

}  // namespace wick::WICK_ISA
