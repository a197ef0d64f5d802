#ifdef __AVX512F__

#include "wick/kernels/cpu/amx_tiles.h"
#include "wick/kernels/cpu/attention_scores.h"
#include "wick/kernels/cpu/product_tile.h"

namespace wick::WICK_ISA {

namespace amx {
namespace {

// Elements from a row of weights to the next.
constexpr int64_t kWeightRow = kKeys + kBlock;
// Queries at a time: a multiple of 32. Keys and values are packed once for as many.
constexpr int64_t kQueryRows = 192;

/// 32 numbers of bfloat16 that lie as float32, or the first `n` of them and zeros.
WICK_INLINE __m512i exact_halves(const float* p, int64_t n) {
  const auto high = [](VecF x) {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x.reg), 16));
  };
  if (n <= 0) return _mm512_setzero_si512();
  const __m256i low = high(load_up_to<float>(p, n));
  if (n <= kTile) return _mm512_zextsi256_si512(low);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low),
                            high(load_up_to<float>(p + kTile, n - kTile)), 1);
}

/// The forward pass. Products of q and k are exact, and summed in float32. A weight is split into
/// its first 8 bits and the next 8, each a bfloat16 number, and v is multiplied by both. The
/// backward pass computes the scores in float32, by other sums.
class Attention {
 public:
  WICK_INLINE Attention(const FusedAttention& a, cpu::BFloat16Unit unit)
      : a_(a),
        is_matrix_(unit == cpu::BFloat16Unit::kMatrix),
        scales_first_(a.scale <= 0 || (a.mask.defined() && a.mask.dtype != Dtype::kBool)),
        scores_(a),
        queries_(a.q.shape[2]),
        features_(a.q.shape[3]),
        values_(a.v.shape[3]),
        q_row_(round_up(features_, kBlock)),
        o_row_(round_up(values_, kBlock)),
        group_(a.q.shape[1] / a.k.shape[1]) {}

  WICK_INLINE void run(Workspace& workspace) const {
    const int64_t blocks = (queries_ + kQueryRows - 1) / kQueryRows, heads = a_.q.shape[1];
    const int64_t count = a_.q.shape[0] * heads * blocks;
    const int64_t threads = smaller(num_threads(), count);
    const int64_t float_count = round_up(kQueryRows * (kScoreRow + o_row_ + 2) + kKeys, kTile);
    const int64_t half_count =
        (kQueryRows + kKeys) * q_row_ + kKeys * o_row_ + 2 * kQueryRows * kWeightRow;
    float* const buffers =
        static_cast<float*>(workspace.allocate(static_cast<size_t>(threads * float_count) * 4));
    BFloat16* const packed = halves(workspace, threads * half_count);
    parallel_for_threads(count, threads, [&](int64_t thread, int64_t begin, int64_t end) {
      const auto run_blocks = [&] {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % blocks * kQueryRows;
          compute(i / blocks / heads, i / blocks % heads, first,
                  smaller(kQueryRows, queries_ - first), buffers + thread * float_count,
                  packed + thread * half_count);
        }
      };
      if (!is_matrix_) return run_blocks();
      const Tiles tiles;
      run_blocks();
    });
    workspace.release(packed);
    workspace.release(buffers);
  }

 private:
  void compute(int64_t batch, int64_t head, int64_t first, int64_t rows, float* buffer,
               BFloat16* packed) const {
    const HeadRows<float> q(a_.q, batch, head), o(a_.o, batch, head), stats(a_.stats, batch, head);
    const HeadRows<float> k(a_.k, batch, head / group_), v(a_.v, batch, head / group_);
    float* const scores = buffer;
    float* const sums = scores + kQueryRows * kScoreRow;
    float* const most = sums + kQueryRows * o_row_;
    float* const totals = most + kQueryRows;
    float* const factors = totals + kQueryRows;
    BFloat16* const packed_q = packed;
    BFloat16* const packed_k = packed_q + kQueryRows * q_row_;
    BFloat16* const packed_v = packed_k + kKeys * q_row_;
    BFloat16* const heads = packed_v + kKeys * o_row_;
    BFloat16* const rests = heads + kQueryRows * kWeightRow;
    const int64_t all_rows = round_up(rows, kBlock);  // results beyond `rows` are not used
    for (int64_t r = 0; r < all_rows; ++r) {
      for (int64_t i = 0; i < q_row_; i += kBlock) {
        const int64_t left = r < rows ? features_ - i : 0;
        _mm512_store_si512(packed_q + r * q_row_ + i, exact_halves(q[first + r] + i, left));
      }
      most[r] = kExcludedScore<float>;
      totals[r] = 0;
    }
    __builtin_memset(sums, 0, static_cast<size_t>(all_rows * o_row_) * 4);
    const int64_t end = scores_.keys_before(first + rows);
    for (int64_t key = 0; key < end; key += kKeys) {
      const int64_t keys = smaller(kKeys, end - key), all_keys = round_up(keys, kBlock);
      pack_keys(k, key, keys, packed_k);
      pack_values(v, key, keys, packed_v);
      for (int64_t r = 0; r < all_rows; r += kBlock) {
        score(packed_q + r * q_row_, packed_k, all_keys, scores + r * kScoreRow);
      }
      for (int64_t r = 0; r < rows; ++r) {
        float* const row = scores + r * kScoreRow;
        if (scales_first_) scale_by(row, round_up(keys, kTile), static_cast<float>(a_.scale));
        scores_.mask_row(batch, head, first + r, key, keys, row);
        if (scores_.drops()) scores_.keep_row(batch, head, first + r, key, keys, factors);
        BFloat16 *const start = heads + r * kWeightRow, *const rest = rests + r * kWeightRow;
        const float scale = scales_first_ ? 1 : static_cast<float>(a_.scale);
        const float shrink =
            weigh_scores(row, keys, scale, most[r], totals[r], [&](int64_t i, VecF weight) {
              split(scores_.drops() ? weight * VecF::load(factors + i) : weight, start + i,
                    rest + i);
            });
        if (key > 0 && shrink != 1) scale_by(sums + r * o_row_, o_row_, shrink);
        if (all_keys > round_up(keys, kTile)) {
          split(VecF(0), start + all_keys - kTile, rest + all_keys - kTile);
        }
      }
      for (int64_t r = 0; r < all_rows; r += kBlock) {
        add_values(heads + r * kWeightRow, rests + r * kWeightRow, packed_v, all_keys,
                   sums + r * o_row_);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      const float factor = totals[r] == 0 ? 0 : 1 / totals[r];
      for_vectors<float>(values_, [&](int64_t i, int64_t n) {
        store_up_to(VecF::load(sums + r * o_row_ + i) * VecF(factor), o[first + r] + i, n);
      });
      stats[first + r][0] = most[r] == kExcludedScore<float> ? 0 : most[r];
      stats[first + r][1] = factor;
    }
  }

  static WICK_INLINE void scale_by(float* row, int64_t size, float factor) {
    for (int64_t i = 0; i < size; i += kTile) (VecF::load(row + i) * VecF(factor)).store(row + i);
  }
  // The second part of a weight is above 0 where the weight is, so that infinite values stay so.
  static WICK_INLINE void split(VecF weight, BFloat16* first, BFloat16* second) {
    const __m512i high = _mm512_srli_epi32(_mm512_castps_si512(weight.reg), 16);
    const VecF rest = weight - VecF(_mm512_castsi512_ps(_mm512_slli_epi32(high, 16)));
    const VecF least(0x1p-126f);
    const VecF kept(_mm512_maskz_max_ps(_mm512_cmp_ps_mask(weight.reg, VecF(0).reg, _CMP_GT_OQ),
                                        rest.reg, least.reg));
    _mm256_store_si256(reinterpret_cast<__m256i*>(first), _mm512_cvtepi32_epi16(high));
    _mm256_store_si256(reinterpret_cast<__m256i*>(second), round_half(kept));
  }

  // Tiles of pairs of features by 16 keys: by 32 keys, by features, then by 16 keys.
  WICK_INLINE void pack_keys(const HeadRows<float>& k, int64_t key, int64_t keys,
                             BFloat16* to) const {
    for (int64_t block = 0; block < round_up(keys, kBlock); block += kBlock) {
      for (int64_t c = 0; c < q_row_; c += kBlock) {
        for (int64_t first = block; first < block + kBlock; first += kTile, to += kTileHalves) {
          __m512i rows[kTile];
          for (int64_t i = 0; i < kTile; ++i) {
            const int64_t left = first + i < keys ? features_ - c : 0;
            rows[i] = exact_halves(k[key + first + i] + c, left);
          }
          transpose(rows);
          for (int64_t i = 0; i < kTile; ++i) _mm512_store_si512(to + i * kBlock, rows[i]);
        }
      }
    }
  }
  // Tiles of pairs of keys by 16 values: by keys, then by values.
  WICK_INLINE void pack_values(const HeadRows<float>& v, int64_t key, int64_t keys,
                               BFloat16* to) const {
    for (int64_t first = 0; first < round_up(keys, kBlock); first += kBlock) {
      for (int64_t c = 0; c < o_row_; c += kBlock, to += 2 * kTileHalves) {
        for (int64_t i = 0; i < kTile; ++i) {
          const int64_t row = first + 2 * i;
          const Pairs pairs(exact_halves(v[key + row] + c, row < keys ? values_ - c : 0),
                            exact_halves(v[key + row + 1] + c, row + 1 < keys ? values_ - c : 0));
          _mm512_store_si512(to + i * kBlock, pairs.low);
          _mm512_store_si512(to + kTileHalves + i * kBlock, pairs.high);
        }
      }
    }
  }

  // 32 queries by `keys` keys.
  WICK_INLINE void score(const BFloat16* q, const BFloat16* k, int64_t keys, float* to) const {
    for (int64_t key = 0; key < keys; key += kBlock, k += q_row_ / kBlock * 2 * kTileHalves) {
      if (!is_matrix_) {
        multiply_pairs<2>(kBlock, q_row_, {q, kTile * q_row_, q_row_, kBlock}, k, 2 * kTileHalves,
                          false, to + key, kScoreRow);
        continue;
      }
      zero_block();
      for (int64_t c = 0; c < q_row_; c += kBlock) {
        multiply_block(q + c, kTile * q_row_, q_row_ * 2, k + c / kBlock * 2 * kTileHalves,
                       kTileHalves, 64);
      }
      store_block(to + key, kScoreRow);
    }
  }
  // Adds 32 queries' products of the weights of `keys` keys and their values.
  WICK_INLINE void add_values(const BFloat16* heads, const BFloat16* rests, const BFloat16* v,
                              int64_t keys, float* sums) const {
    const int64_t next = o_row_ / kBlock * 2 * kTileHalves;
    for (int64_t c = 0; c < o_row_; c += kBlock, v += 2 * kTileHalves) {
      if (!is_matrix_) {
        for (const BFloat16* const weights : {heads, rests}) {
          multiply_pairs<2>(kBlock, keys, {weights, kTile * kWeightRow, kWeightRow, kBlock}, v,
                            next, true, sums + c, o_row_);
        }
        continue;
      }
      load_block(sums + c, o_row_);
      for (int64_t key = 0; key < keys; key += kBlock) {
        const BFloat16* const b = v + key / kBlock * next;
        multiply_block(heads + key, kTile * kWeightRow, kWeightRow * 2, b, kTileHalves, 64);
        multiply_block(rests + key, kTile * kWeightRow, kWeightRow * 2, b, kTileHalves, 64);
      }
      store_block(sums + c, o_row_);
    }
  }

  const FusedAttention& a_;
  bool is_matrix_;     // else dot products of pairs
  bool scales_first_;  // whether scores are scaled before the mask
  AttentionScores<float> scores_;
  int64_t queries_, features_, values_;
  int64_t q_row_, o_row_;  // elements of a row of features or values, in whole blocks
  int64_t group_;          // heads of q that share one of k
};

}  // namespace
}  // namespace amx

void bfloat16_attention(const FusedAttention& a, cpu::BFloat16Unit unit, Workspace& workspace) {
  amx::Attention(a, unit).run(workspace);
}

}  // namespace wick::WICK_ISA

#endif
