#pragma once

#include "wick/kernels/cpu/rows.h"

// The innermost piece of matrix products: a tile of results that stays in registers while its sums
// run along k. Each result is one chain of multiply-adds, so that its bits depend neither on where
// it lies in the tile nor on how wide vectors are.
namespace wick::WICK_ISA {

inline constexpr int64_t kTileRows = 6;
inline constexpr int64_t kTileVectors = WICK_WIDE(4, 2);  // of each of its rows
inline constexpr int64_t kAhead = 8;  // rows of `b` that are fetched before they are used
template <class T>
inline constexpr int64_t kTileColumns = kTileVectors* Vec<T>::size;

/// How an element of `a`, in all lanes, and those of `b` join a sum.
struct MultiplyAdd {
  static constexpr bool kHasLines = false;
  static constexpr int64_t kTogether = 1;  // elements along k that one step adds
  template <class T>
  using Left = T;
  template <class T>
  static WICK_INLINE Vec<T> left(const T* a) {
    return Vec<T>(*a);
  }
  template <class V>
  static WICK_INLINE V add(V a, V b, V sum) {
    return fma(a, b, sum);
  }
};

/// The same along several lines of k: a loop more, which short sums feel.
struct MultiplyLines : MultiplyAdd {
  static constexpr bool kHasLines = true;
};

#ifdef __AVX512F__
/// The first `count` of up to 32 numbers of 16 bits.
WICK_INLINE __mmask32 halves_mask(int64_t count) {
  return static_cast<__mmask32>(count >= 32 ? ~0u : (1u << count) - 1);
}

/// The same of pairs of bfloat16, of which both products are added: `a` points to their elements,
/// `b` to 32 bits for each pair.
struct MultiplyPairs {
  static constexpr bool kHasLines = true;
  static constexpr int64_t kTogether = 2;
  template <class>
  using Left = BFloat16;
  static WICK_INLINE VecF left(const BFloat16* a) {
    float pair;
    __builtin_memcpy(&pair, a, sizeof(pair));
    return VecF(pair);
  }
  /// A pair whose second element is 0.
  static WICK_INLINE VecF only_first(const BFloat16* a) {
    return VecF(__builtin_bit_cast(float, static_cast<uint32_t>(a->bits)));
  }
  static WICK_INLINE VecF add(VecF a, VecF b, VecF sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.reg) : "v"(a.reg), "v"(b.reg));
    return sum;
  }
};
/// 32 elements of `a` and of `b` as pairs: those of the first and of the last 16.
struct Pairs {
  __m512i low, high;
  WICK_INLINE Pairs(__m512i a, __m512i b) {
    alignas(64) static constexpr uint16_t kOrder[64] = {
        0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
        11, 43, 12, 44, 13, 45, 14, 46, 15, 47, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53,
        22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
    low = _mm512_permutex2var_epi16(a, _mm512_load_si512(kOrder), b);
    high = _mm512_permutex2var_epi16(a, _mm512_load_si512(kOrder + 32), b);
  }
};

WICK_INLINE void store_pair(__m512i rounded, BFloat16* to, bool streams) {
  if (streams) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), rounded);
  } else {
    _mm512_storeu_si512(to, rounded);
  }
}
/// Rounds two vectors to one; what has dot products of pairs has this too.
WICK_INLINE __m512i round_pair(VecF low, VecF high) {
  __m512i rounded;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(rounded) : "v"(low.reg), "v"(high.reg));
  return rounded;
}
WICK_INLINE __m256i round_half(VecF x) {
  __m256i rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(x.reg));
  return rounded;
}
#endif

/// c[r, j] = start[r, j] + the sum over k of a[r, k] b[k, j], for the first `width` columns. All k
/// are `lines` times `inner`. Lines and streams are for a Multiply with lines.
template <class T, class Multiply = MultiplyAdd>
struct Tile {
  int64_t inner = 0, lines = 1;
  bool has_odd =
      false;  // of pairs: whether each line ends with one more, of which the first counts
  const typename Multiply::template Left<T>* a = nullptr;
  int64_t a_row = 0, a_step = 0, a_line = 0;  // to the next r, k, line
  const T* b = nullptr;
  int64_t b_step = 0, b_line = 0;
  bool padded = false;  // whether rows of `b` go on to the end of a vector
  T* c = nullptr;
  int64_t c_row = 0, width = 0;
  bool is_far = false;   // whether `c` is likely in no near cache
  bool streams = false;  // whether to write past the caches: whole vectors, at aligned addresses
  /// Of pairs: where results go, rounded, in place of `c`; and what is added.
  typename Multiply::template Left<T>* rounded = nullptr;
  const typename Multiply::template Left<T>* bias = nullptr;
  const T* start = nullptr;  // null: zeros
  int64_t start_row = 0;

  WICK_INLINE void fetch_result(int64_t row, int64_t column) const {
    const int64_t at = row * c_row + column;
    if (Multiply::kTogether == 1 || rounded == nullptr) return __builtin_prefetch(c + at);
    if (column % (64 / static_cast<int64_t>(sizeof(*rounded))) == 0)
      __builtin_prefetch(rounded + at);
  }
};

// Adds the products of one k, or of a line's odd end.
template <bool kWhole, bool kOdd, int kRows, int kVectors, class T, class Multiply>
WICK_INLINE void add_products(const Tile<T, Multiply>& tile, const FirstLanes<T>& last,
                              const typename Multiply::template Left<T>* a, const T* b,
                              Vec<T> (&sums)[kRows][kVectors]) {
  using V = Vec<T>;
  V row[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v + 1 < kVectors; ++v) row[v] = V::load(b + v * V::size);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) __builtin_prefetch(b + kAhead * tile.b_step + v * V::size);
  const T* const end = b + (kVectors - 1) * V::size;
  row[kVectors - 1] = kWhole ? V::load(end) : last.load(end);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    V x;
    if constexpr (kOdd) {
      x = Multiply::only_first(a + r * tile.a_row);
    } else {
      x = Multiply::left(a + r * tile.a_row);
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = Multiply::add(x, row[v], sums[r][v]);
  }
}

#ifdef __AVX512F__
template <bool kStreams, bool kWhole, int kRows, int kVectors>
WICK_INLINE void store_rounded(BFloat16* to, int64_t row, int64_t width,
                               const VecF (&sums)[kRows][kVectors]) {
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r, to += row) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v += 2) {
      const int64_t at = v * VecF::size, left = width - at;
      if (v + 1 == kVectors) {
        const auto mask = static_cast<__mmask16>(halves_mask(left));
        _mm256_mask_storeu_epi16(to + at, mask, round_half(sums[r][v]));
      } else if (kWhole || v + 2 < kVectors) {
        store_pair(round_pair(sums[r][v], sums[r][v + 1]), to + at, kStreams);
      } else {
        _mm512_mask_storeu_epi16(to + at, halves_mask(left),
                                 round_pair(sums[r][v], sums[r][v + 1]));
      }
    }
  }
}

// kWhole: every result belongs to a column, so that rows may be streamed.
template <bool kWhole, int kRows, int kVectors>
WICK_INLINE void round_results(const Tile<float, MultiplyPairs>& tile,
                               VecF (&sums)[kRows][kVectors]) {
  if (tile.bias != nullptr) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = v * VecF::size;
      const VecF bias = load_up_to<float>(tile.bias + at, tile.width - at);
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) sums[r][v] += bias;
    }
  }
  if (kWhole && tile.streams) {
    return store_rounded<kWhole, kWhole>(tile.rounded, tile.c_row, tile.width, sums);
  }
  store_rounded<false, kWhole>(tile.rounded, tile.c_row, tile.width, sums);
}
#endif

template <int kRows, int kVectors, class T, class Multiply>
WICK_INLINE void stream_results(const Tile<T, Multiply>& tile, Vec<T> (&sums)[kRows][kVectors]) {
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = v * Vec<T>::size;
      if (tile.start != nullptr) sums[r][v] += Vec<T>::load(tile.start + r * tile.start_row + at);
      sums[r][v].stream(tile.c + r * tile.c_row + at);
    }
  }
}

// A masked load takes a unit that multiplies: kWhole does without, where `b` has whole vectors.
template <int kRows, int kVectors, bool kWhole, class T, class Multiply>
[[gnu::noinline]] void multiply_tile(const Tile<T, Multiply>& tile) {
  using V = Vec<T>;
  const FirstLanes<T> last(tile.width - (kVectors - 1) * V::size);
  V sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if (tile.is_far) tile.fetch_result(r, v * V::size);
      sums[r][v] = V(T(0));
    }
  }
  const auto* a_line = tile.a;
  const T* b_line = tile.b;
  for (int64_t lines = Multiply::kHasLines ? tile.lines : 1; lines > 0; --lines) {
    const auto* a = a_line;
    const T* b = b_line;
    for (int64_t k = tile.inner; k > 0; --k, a += tile.a_step, b += tile.b_step) {
      add_products<kWhole, false>(tile, last, a, b, sums);
    }
    if constexpr (!__is_same(T, typename Multiply::template Left<T>)) {
      if (tile.has_odd) add_products<kWhole, true>(tile, last, a, b, sums);
    }
    a_line += tile.a_line;
    b_line += tile.b_line;
  }
#ifdef __AVX512F__
  if constexpr (__is_same(Multiply, MultiplyPairs)) {
    if (tile.rounded != nullptr) {
      if (kVectors % 2 == 0 && tile.width == kVectors * V::size) {
        return round_results<true>(tile, sums);
      }
      return round_results<false>(tile, sums);
    }
  }
#endif
  if constexpr (Multiply::kHasLines) {
    if (tile.streams) return stream_results(tile, sums);
  }
  const T* start = tile.start;
  const int64_t start_row = tile.start_row, c_row = tile.c_row;
  const bool adds = start != nullptr;
  // Some processors of AMD take forty steps for one masked store of AVX2.
  const bool is_whole = WICK_WIDE(false, kWhole && tile.width == kVectors * V::size);
  T* c = tile.c;
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r, start += start_row, c += c_row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = v * V::size;
      V sum = sums[r][v];
      if (v + 1 < kVectors || is_whole) {
        if (adds) sum = V::load(start + at) + sum;
        sum.store(c + at);
      } else {
        if (adds) sum = last.load(start + at) + sum;
        last.store(sum, c + at);
      }
    }
  }
}

/// Tiles so narrow may have 8 or 12 rows too: sums enough to hide what a multiply-add takes.
template <class T>
inline constexpr int64_t kNarrow = WICK_WIDE(2, 1) * Vec<T>::size;

/// How many rows of the `left` ones the next tile takes.
template <class T>
WICK_INLINE int64_t tile_rows(int64_t left, int64_t columns) {
  if (columns <= kNarrow<T> && left >= 8) return left >= 12 && left != 16 ? 12 : 8;
  return left <= kTileRows ? left : left < 2 * kTileRows ? (left + 1) / 2 : kTileRows;
}

template <int kRows, int kVectors, class T, class Multiply>
WICK_INLINE void multiply_vectors(const Tile<T, Multiply>& tile) {
  if constexpr (sizeof(T) == 4 || !Multiply::kHasLines) {  // convolutions by doubles are rare
    if (tile.padded || tile.width == kVectors * Vec<T>::size) {
      return multiply_tile<kRows, kVectors, true>(tile);
    }
  }
  multiply_tile<kRows, kVectors, false>(tile);
}

template <int kRows, class T, class Multiply>
WICK_INLINE void multiply_narrow(const Tile<T, Multiply>& tile) {
#ifdef __AVX512F__
  if (tile.width > Vec<T>::size) return multiply_vectors<kRows, 2>(tile);
#endif
  multiply_vectors<kRows, 1>(tile);
}

template <int kRows, class T, class Multiply>
WICK_INLINE void multiply_rows(const Tile<T, Multiply>& tile) {
  if (tile.width <= kNarrow<T>) return multiply_narrow<kRows>(tile);
#ifdef __AVX512F__
  if (tile.width <= 3 * Vec<T>::size) return multiply_vectors<kRows, 3>(tile);
#endif
  multiply_vectors<kRows, kTileVectors>(tile);
}

/// A tile of 1 to kTileColumns columns and as many rows as tile_rows() says.
template <class T, class Multiply>
WICK_INLINE void multiply_tile(int64_t rows, const Tile<T, Multiply>& tile) {
  switch (rows) {
    case 1: return multiply_rows<1>(tile);
    case 2: return multiply_rows<2>(tile);
    case 3: return multiply_rows<3>(tile);
    case 4: return multiply_rows<4>(tile);
    case 5: return multiply_rows<5>(tile);
    case 6: return multiply_rows<6>(tile);
    case 8: return multiply_narrow<8>(tile);
    default: return multiply_narrow<12>(tile);
  }
}

/// c = max(c + residual, 0), or without one of the two, of a tile that was just written. The
/// residual is laid out as `c`.
template <class T, class Multiply>
[[gnu::noinline]] void finish_tile(int64_t rows, const Tile<T, Multiply>& tile, const T* residual,
                                   bool relu) {
  for (int64_t r = 0; r < rows; ++r) {
    for_vectors<T>(tile.width, [&](int64_t j, int64_t left) {
      const int64_t at = r * tile.c_row + j;
      Vec<T> sum = load_up_to<T>(tile.c + at, left);
      if (residual != nullptr) sum += load_up_to<T>(residual + at, left);
      store_up_to(relu ? max(sum, Vec<T>(T(0))) : sum, tile.c + at, left);
    });
  }
}

}  // namespace wick::WICK_ISA
