#ifdef __AVX512F__

#include "wick/kernels/cpu/bfloat16_attention.h"

namespace wick::WICK_ISA {

namespace amx {
namespace {

constexpr int64_t kTileKeys = 512;  // of a tile of 32 queries
// Floats from a row of a tile to the next: no power of two.
constexpr int64_t kTileRow = kTileKeys + kBlock;
// Queries that keys and values are packed for once, at most.
constexpr int64_t kQueryRows = 512;

/// The forward pass. Products of q and k are exact, and summed in float32; weights are split. q, k,
/// v and o are of type T.
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
      with_tiles(is_matrix_, [&] {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % blocks * rows_;
          compute(i / blocks / heads, i / blocks % heads, first, smaller(rows_, queries_ - first),
                  buffers + thread * float_count, packed + thread * half_count);
        }
      });
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
    pack_rows(q, first, rows, features_, packed_q);
    for (int64_t r = 0; r < all_rows; ++r) {
      most[r] = kExcludedScore<float>;
      totals[r] = 0;
    }
    __builtin_memset(sums, 0, static_cast<size_t>(all_rows * o_row_) * 4);
    const int64_t end = scores_.keys_before(first + rows);
    for (int64_t key = 0; key < end; key += kTileKeys) {
      pack_row_pairs(k, key, smaller(kTileKeys, end - key), features_, packed_k);
      pack_column_pairs(v, key, smaller(kTileKeys, end - key), values_, packed_v);
      for (int64_t block = 0; block < rows; block += kBlock) {
        const int64_t block_rows = smaller(kBlock, rows - block);
        const int64_t seen = scores_.keys_before(first + block + block_rows);
        const int64_t keys = smaller(kTileKeys, seen - key);
        if (keys <= 0) continue;
        multiply_rows(is_matrix_, packed_q + block * q_row_, q_row_, packed_k,
                      round_up(keys, kBlock), tile, kTileRow);
        for (int64_t r = 0; r < block_rows; ++r) {
          float* const row = tile + r * kTileRow;
          const int64_t query = first + block + r;
          if (scales_first_) scale_floats(row, round_up(keys, kTile), static_cast<float>(a_.scale));
          scores_.mask_row(batch, head, query, key, keys, row);
          float shrink;
          if (scores_.drops()) {
            scores_.keep_row(batch, head, query, key, keys, factors);
            shrink = weigh<true>(row, keys, factors, most[block + r], totals[block + r]);
          } else {
            shrink = weigh<false>(row, keys, factors, most[block + r], totals[block + r]);
          }
          if (shrink != 1) scale_floats(sums + (block + r) * o_row_, o_row_, shrink);
        }
        add_products(is_matrix_, tile, kTileRow, packed_v, round_up(keys, kBlock), o_row_,
                     sums + block * o_row_);
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
      store_parts(low, high, row + i);
    }
    float shrink = 1;
    if (most > before && before != kExcludedScore<float>) {
      shrink = first_lane(exp(VecF(before) - shift));
      total *= shrink;
    }
    total += (even + odd).total();
    return shrink;
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
