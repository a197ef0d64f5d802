#ifdef __AVX512F__

#include "wick/kernels/cpu/amx_tiles.h"
#include "wick/kernels/cpu/attention_scores.h"
#include "wick/kernels/cpu/product_tile.h"

namespace wick::WICK_ISA {

namespace amx {
namespace {

constexpr int64_t kTileKeys = 512;  // of a tile of 32 queries
// Floats from a row of a tile to the next: no power of two.
constexpr int64_t kTileRow = kTileKeys + kBlock;
// Queries that keys and values are packed for once, at most.
constexpr int64_t kQueryRows = 512;

/// The first 16 bits of 32 numbers.
WICK_INLINE __m512i first_halves(__m512i a, __m512i b) {
  alignas(64) static constexpr uint16_t kOrder[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                      23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                      45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return _mm512_permutex2var_epi16(a, _mm512_load_si512(kOrder), b);
}
/// 32 numbers, rounded.
WICK_INLINE __m512i rounded_halves(VecF a, VecF b) {
  __m512i rounded;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(rounded) : "v"(a.reg), "v"(b.reg));
  return rounded;
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

/// The forward pass. Products of q and k are exact, and summed in float32. A weight is split into
/// its first 8 bits and the next 8, each a bfloat16 number, and v is multiplied by both. The
/// backward pass computes the scores in float32, by other sums. q, k, v and o are of type T.
template <class T>
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
        group_(a.q.shape[1] / a.k.shape[1]) {
    // Four pieces for each thread. A query's result does not depend on the piece it is in.
    const int64_t heads = larger(1, a.q.shape[0] * a.q.shape[1]);
    const int64_t pieces = (4 * num_threads() + heads - 1) / heads;
    rows_ = smaller(kQueryRows, round_up((queries_ + pieces - 1) / pieces, kBlock));
  }

  WICK_INLINE void run(Workspace& workspace) const {
    const int64_t blocks = (queries_ + rows_ - 1) / rows_, heads = a_.q.shape[1];
    const int64_t count = a_.q.shape[0] * heads * blocks;
    const int64_t threads = smaller(num_threads(), count);
    const int64_t float_count = kBlock * kTileRow + rows_ * (o_row_ + 2) + kTileKeys;
    const int64_t half_count = (rows_ + kTileKeys) * q_row_ + kTileKeys * o_row_;
    float* const buffers =
        static_cast<float*>(workspace.allocate(static_cast<size_t>(threads * float_count) * 4));
    BFloat16* const packed = halves(workspace, threads * half_count);
    parallel_for_threads(count, threads, [&](int64_t thread, int64_t begin, int64_t end) {
      const auto run_blocks = [&] {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % blocks * rows_;
          compute(i / blocks / heads, i / blocks % heads, first, smaller(rows_, queries_ - first),
                  buffers + thread * float_count, packed + thread * half_count);
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
    const HeadRows<float> stats(a_.stats, batch, head);
    const HeadRows<T> q(a_.q, batch, head), o(a_.o, batch, head);
    const HeadRows<T> k(a_.k, batch, head / group_), v(a_.v, batch, head / group_);
    float* const tile = buffer;
    float* const factors = tile + kBlock * kTileRow;
    float* const sums = factors + kTileKeys;
    float* const most = sums + rows_ * o_row_;
    float* const totals = most + rows_;
    BFloat16* const packed_q = packed;
    BFloat16* const packed_k = packed_q + rows_ * q_row_;
    BFloat16* const packed_v = packed_k + kTileKeys * q_row_;
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
    for (int64_t key = 0; key < end; key += kTileKeys) {
      pack_keys(k, key, smaller(kTileKeys, end - key), packed_k);
      pack_values(v, key, smaller(kTileKeys, end - key), packed_v);
      for (int64_t block = 0; block < rows; block += kBlock) {
        const int64_t block_rows = smaller(kBlock, rows - block);
        const int64_t seen = scores_.keys_before(first + block + block_rows);
        const int64_t keys = smaller(kTileKeys, seen - key);
        if (keys <= 0) continue;
        score(packed_q + block * q_row_, packed_k, round_up(keys, kBlock), tile);
        for (int64_t r = 0; r < block_rows; ++r) {
          float* const row = tile + r * kTileRow;
          const int64_t query = first + block + r;
          if (scales_first_) scale_by(row, round_up(keys, kTile), static_cast<float>(a_.scale));
          scores_.mask_row(batch, head, query, key, keys, row);
          float shrink;
          if (scores_.drops()) {
            scores_.keep_row(batch, head, query, key, keys, factors);
            shrink = weigh<true>(row, keys, factors, most[block + r], totals[block + r]);
          } else {
            shrink = weigh<false>(row, keys, factors, most[block + r], totals[block + r]);
          }
          if (shrink != 1) scale_by(sums + (block + r) * o_row_, o_row_, shrink);
        }
        add_values(tile, packed_v, round_up(keys, kBlock), sums + block * o_row_);
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

  // Turns a row of scores into weights of what is above the largest score so far, and returns what
  // the results of earlier keys shrink by. Of 32 weights the first parts lie where the first 16
  // scores did, and the second parts where the others did.
  template <bool kDrops>
  WICK_INLINE float weigh(float* row, int64_t keys, const float* factors, float& most,
                          float& total) const {
    const float scale = scales_first_ ? 1 : static_cast<float>(a_.scale);
    const float before = most, here = max_row<float>(row, keys) * scale;
    if (here > most) most = here;
    const VecF factor(scale), shift(most == kExcludedScore<float> ? 0 : most);
    const auto weight = [&](int64_t i, LaneSums<float>& sum) {
      const VecF e = exp(fma(VecF::load(row + i), factor, -shift));
      sum[0] += e;
      return kDrops ? e * VecF::load(factors + i) : e;
    };
    LaneSums<float> even, odd;
    int64_t i = 0;
    for (const int64_t whole = round_up(keys, kTile); i < whole; i += kBlock) {
      const VecF low = weight(i, even), high = i + kTile < whole ? weight(i + kTile, odd) : VecF(0);
      _mm512_store_si512(row + i,
                         first_halves(_mm512_castps_si512(low.reg), _mm512_castps_si512(high.reg)));
      _mm512_store_si512(row + i + kTile, rounded_halves(rest(low), rest(high)));
    }
    float shrink = 1;
    if (most > before && before != kExcludedScore<float>) {
      shrink = first_lane(exp(VecF(before) - shift));
      total *= shrink;
    }
    total += (even + odd).total();
    return shrink;
  }
  // What the first 16 bits leave, and the last bit of float32 more: so it is above 0 where the
  // weight is, and infinite values stay so.
  static WICK_INLINE VecF rest(VecF weight) {
    const __m512i high =
        _mm512_and_si512(_mm512_castps_si512(weight.reg), _mm512_set1_epi32(-0x10000));
    return fma(weight, VecF(0x1.000002p+0f), -VecF(_mm512_castsi512_ps(high)));
  }

  // Tiles of pairs of features by 16 keys: by 32 keys, by features, then by 16 keys.
  WICK_INLINE void pack_keys(const HeadRows<T>& k, int64_t key, int64_t keys, BFloat16* to) const {
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
  WICK_INLINE void pack_values(const HeadRows<T>& v, int64_t key, int64_t keys,
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
                          false, to + key, kTileRow);
        continue;
      }
      zero_block();
      for (int64_t c = 0; c < q_row_; c += kBlock) {
        multiply_block(q + c, kTile * q_row_, q_row_ * 2, k + c / kBlock * 2 * kTileHalves,
                       kTileHalves, 64);
      }
      store_block(to + key, kTileRow);
    }
  }
  // Adds 32 queries' products of the weights of `keys` keys and their values.
  WICK_INLINE void add_values(const float* tile, const BFloat16* v, int64_t keys,
                              float* sums) const {
    const auto* const weights = reinterpret_cast<const BFloat16*>(tile);
    const int64_t next = o_row_ / kBlock * 2 * kTileHalves, row = 2 * kTileRow;
    for (int64_t c = 0; c < o_row_; c += kBlock, v += 2 * kTileHalves) {
      if (!is_matrix_) {
        for (const BFloat16* const part : {weights, weights + kBlock}) {
          multiply_pairs<2>(kBlock, keys, {part, kTile * row, row, 2 * kBlock}, v, next, true,
                            sums + c, o_row_);
        }
        continue;
      }
      load_block(sums + c, o_row_);
      for (int64_t key = 0; key < keys; key += kBlock) {
        const BFloat16 *const a = weights + 2 * key, *const b = v + key / kBlock * next;
        load_tile<6>(b, 64);
        load_tile<7>(b + kTileHalves, 64);
        multiply_by_loaded(a, row);
        multiply_by_loaded(a + kBlock, row);
      }
      store_block(sums + c, o_row_);
    }
  }
  // A block of 2 x 2 tiles += `a`, of 32 rows, times tiles 6 and 7.
  static WICK_INLINE void multiply_by_loaded(const BFloat16* a, int64_t row) {
    load_tile<4>(a, row * 2);
    multiply_tiles<0, 4, 6>();
    load_tile<5>(a + kTile * row, row * 2);
    multiply_tiles<1, 4, 7>();
    multiply_tiles<2, 5, 6>();
    multiply_tiles<3, 5, 7>();
  }

  const FusedAttention& a_;
  bool is_matrix_;     // else dot products of pairs
  bool scales_first_;  // whether scores are scaled before the mask
  AttentionScores<float> scores_;
  int64_t queries_, features_, values_;
  int64_t q_row_, o_row_;  // elements of a row of features or values, in whole blocks
  int64_t group_;          // heads of q that share one of k
  int64_t rows_;           // queries of a piece
};

}  // namespace
}  // namespace amx

void bfloat16_attention(const FusedAttention& a, cpu::BFloat16Unit unit, Workspace& workspace) {
  if (a.q.dtype == Dtype::kBFloat16) return amx::Attention<BFloat16>(a, unit).run(workspace);
  amx::Attention<float>(a, unit).run(workspace);
}

}  // namespace wick::WICK_ISA

#endif
