#pragma once

#ifdef __AVX512F__

#include "wick/kernels/cpu/amx_tiles.h"
#include "wick/kernels/cpu/attention_scores.h"
#include "wick/kernels/cpu/product_tile.h"

// What both passes of attention on bfloat16 numbers share. A factor lies in rows of whole blocks,
// or as pairs: of neighbours in a row, for products that sum over features, or of neighbours in a
// column, for products that sum over rows. A number of float32 is split into its first 8 bits and
// the next 8, each a bfloat16 number, and the other factor is multiplied by both.
namespace wick::WICK_ISA::amx {

/// Calls `body`, where matrix units multiply with tiles.
template <class Body>
WICK_INLINE void with_tiles(bool is_matrix, const Body& body) {
  if (!is_matrix) return body();
  const Tiles tiles;
  body();
}

/// The first 16 bits of 32 numbers.
WICK_INLINE __m512i first_halves(__m512i a, __m512i b) {
  alignas(64) static constexpr uint16_t kOrder[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                      23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                      45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return _mm512_permutex2var_epi16(a, _mm512_load_si512(kOrder), b);
}

/// 32 numbers of bfloat16, or the first `n` of them and zeros.
WICK_INLINE __m512i exact_halves(const BFloat16* p, int64_t n) {
  if (n >= kBlock) return _mm512_loadu_si512(p);
  return n <= 0 ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16((1u << n) - 1, p);
}
/// The same of numbers that lie as float32.
WICK_INLINE __m512i exact_halves(const float* p, int64_t n) {
  if (n <= 0) return _mm512_setzero_si512();
  const VecF low = load_up_to<float>(p, n);
  const VecF high = n > kTile ? load_up_to<float>(p + kTile, n - kTile) : VecF(0);
  return first_halves(_mm512_castps_si512(low.reg), _mm512_castps_si512(high.reg));
}

/// What the first 16 bits leave, and the last bit of float32 more: so it is above 0 where the
/// number is, and infinite values stay so.
WICK_INLINE VecF rest_of(VecF x) {
  const __m512i high = _mm512_and_si512(_mm512_castps_si512(x.reg), _mm512_set1_epi32(-0x10000));
  return fma(x, VecF(0x1.000002p+0f), -VecF(_mm512_castsi512_ps(high)));
}
/// Stores the first parts of 32 numbers where 16 floats lie, and the second parts behind them.
WICK_INLINE void store_parts(VecF low, VecF high, float* to) {
  _mm512_store_si512(to, first_halves(_mm512_castps_si512(low.reg), _mm512_castps_si512(high.reg)));
  _mm512_store_si512(to + kTile, round_pair(rest_of(low), rest_of(high)));
}

WICK_INLINE void scale_floats(float* row, int64_t size, float factor) {
  for (int64_t i = 0; i < size; i += kTile) (VecF::load(row + i) * VecF(factor)).store(row + i);
}

/// `count` rows of `size` elements, and rows of zeros up to a whole block.
template <class T>
WICK_INLINE void pack_rows(const HeadRows<T>& x, int64_t first, int64_t count, int64_t size,
                           BFloat16* to) {
  for (int64_t r = 0; r < round_up(count, kBlock); ++r) {
    for (int64_t i = 0; i < size; i += kBlock, to += kBlock) {
      _mm512_store_si512(
          to, r < count ? exact_halves(x[first + r] + i, size - i) : _mm512_setzero_si512());
    }
  }
}
/// Tiles of pairs of features by 16 rows: by 32 rows, by features, then by 16 rows.
template <class T>
WICK_INLINE void pack_row_pairs(const HeadRows<T>& x, int64_t from, int64_t count, int64_t size,
                                BFloat16* to) {
  for (int64_t block = 0; block < round_up(count, kBlock); block += kBlock) {
    for (int64_t c = 0; c < size; c += kBlock) {
      for (int64_t first = block; first < block + kBlock; first += kTile, to += kTileHalves) {
        __m512i rows[kTile];
        for (int64_t i = 0; i < kTile; ++i) {
          const int64_t left = first + i < count ? size - c : 0;
          rows[i] = exact_halves(x[from + first + i] + c, left);
        }
        transpose(rows);
        for (int64_t i = 0; i < kTile; ++i) _mm512_store_si512(to + i * kBlock, rows[i]);
      }
    }
  }
}
/// Tiles of pairs of rows by 16 features: by 32 rows, then by features.
template <class T>
WICK_INLINE void pack_column_pairs(const HeadRows<T>& x, int64_t from, int64_t count, int64_t size,
                                   BFloat16* to) {
  for (int64_t first = 0; first < round_up(count, kBlock); first += kBlock) {
    for (int64_t c = 0; c < size; c += kBlock, to += 2 * kTileHalves) {
      for (int64_t i = 0; i < kTile; ++i) {
        const int64_t row = first + 2 * i;
        const Pairs pairs(exact_halves(x[from + row] + c, row < count ? size - c : 0),
                          exact_halves(x[from + row + 1] + c, row + 1 < count ? size - c : 0));
        _mm512_store_si512(to + i * kBlock, pairs.low);
        _mm512_store_si512(to + kTileHalves + i * kBlock, pairs.high);
      }
    }
  }
}

/// A block of 2 x 2 tiles += `a`, of 32 rows, times tiles 6 and 7.
WICK_INLINE void multiply_by_loaded(const BFloat16* a, int64_t row) {
  load_tile<4>(a, row * 2);
  multiply_tiles<0, 4, 6>();
  load_tile<5>(a + kTile * row, row * 2);
  multiply_tiles<1, 4, 7>();
  multiply_tiles<2, 5, 6>();
  multiply_tiles<3, 5, 7>();
}

/// 32 rows of `features` elements, whole blocks, by `count` rows as pairs of neighbours in a row.
WICK_INLINE void multiply_rows(bool is_matrix, const BFloat16* rows, int64_t features,
                               const BFloat16* by, int64_t count, float* to, int64_t to_row) {
  for (int64_t i = 0; i < count; i += kBlock, by += features / kBlock * 2 * kTileHalves) {
    if (!is_matrix) {
      multiply_pairs<2>(kBlock, features, {rows, kTile * features, features, kBlock}, by,
                        2 * kTileHalves, false, to + i, to_row);
      continue;
    }
    zero_block();
    for (int64_t c = 0; c < features; c += kBlock) {
      multiply_block(rows + c, kTile * features, features * 2, by + c / kBlock * 2 * kTileHalves,
                     kTileHalves, 64);
    }
    store_block(to + i, to_row);
  }
}

/// Adds the products of 32 rows of split numbers, `row` floats apart, by the first `count` rows of
/// `by`, of `features` elements, as pairs of neighbours in a column.
WICK_INLINE void add_products(bool is_matrix, const float* split, int64_t row, const BFloat16* by,
                              int64_t count, int64_t features, float* sums) {
  const auto* const first = reinterpret_cast<const BFloat16*>(split);
  const int64_t next = features / kBlock * 2 * kTileHalves, half_row = 2 * row;
  for (int64_t c = 0; c < features; c += kBlock, by += 2 * kTileHalves) {
    if (!is_matrix) {
      for (const BFloat16* const part : {first, first + kBlock}) {
        multiply_pairs<2>(kBlock, count, {part, kTile * half_row, half_row, 2 * kBlock}, by, next,
                          true, sums + c, features);
      }
      continue;
    }
    load_block(sums + c, features);
    for (int64_t i = 0; i < count; i += kBlock) {
      const BFloat16 *const a = first + 2 * i, *const b = by + i / kBlock * next;
      load_tile<6>(b, 64);
      load_tile<7>(b + kTileHalves, 64);
      multiply_by_loaded(a, half_row);
      multiply_by_loaded(a + kBlock, half_row);
    }
    store_block(sums + c, features);
  }
}

}  // namespace wick::WICK_ISA::amx

#endif
