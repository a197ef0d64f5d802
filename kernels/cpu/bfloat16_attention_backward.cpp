#ifdef __AVX512F__

#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/bfloat16_attention.h"
#include "wick/kernels/cpu/transpose_square.h"

namespace wick::WICK_ISA {

namespace amx {
namespace {

constexpr int64_t kQueries = 128;  // of a tile of kKeys keys

/// The gradients of q, k and v. Products of the operands are exact, and summed in float32; weights
/// and slopes, the gradients of scores, are split. Queries come in blocks of 32, whose weights and
/// slopes are also kept transposed, for the products that sum over queries.
class AttentionBackward {
 public:
  WICK_INLINE AttentionBackward(const FusedAttention& a, const FusedAttentionGradients& g,
                                cpu::BFloat16Unit unit)
      : a_(a),
        g_(g),
        is_matrix_(unit == cpu::BFloat16Unit::kMatrix),
        scores_(a),
        queries_(a.q.shape[2]),
        keys_(a.k.shape[2]),
        features_(a.q.shape[3]),
        values_(a.v.shape[3]),
        all_queries_(round_up(queries_, kBlock)),
        q_row_(round_up(features_, kBlock)),
        o_row_(round_up(values_, kBlock)),
        group_(a.q.shape[1] / a.k.shape[1]) {}

  WICK_INLINE void run(Workspace& workspace) const {
    const int64_t heads = a_.k.shape[1], count = a_.k.shape[0] * heads;
    const int64_t threads = smaller(num_threads(), count);
    const int64_t float_count = 2 * (kBlock + kKeys) * kScoreRow + kKeys * (q_row_ + o_row_ + 1) +
                                all_queries_ * (q_row_ + 1);
    const int64_t half_count = 2 * all_queries_ * (q_row_ + o_row_) + kKeys * (2 * q_row_ + o_row_);
    float* const buffers =
        static_cast<float*>(workspace.allocate(static_cast<size_t>(threads * float_count) * 4));
    BFloat16* const packed = halves(workspace, threads * half_count);
    parallel_for_threads(count, threads, [&](int64_t thread, int64_t begin, int64_t end) {
      with_tiles(is_matrix_, [&] {
        for (int64_t i = begin; i < end; ++i) {
          const Head head(*this, i / heads, i % heads, buffers + thread * float_count,
                          packed + thread * half_count);
          head.compute();
        }
      });
    });
    workspace.release(packed);
    workspace.release(buffers);
  }

 private:
  /// One head of k and v, and the heads of q that share it.
  struct Head {
    const AttentionBackward& all;
    int64_t batch, shared;
    HeadRows<float> k, v, dk, dv;
    // Tiles: of 32 queries by keys, and of keys by queries.
    float *weights, *slopes, *weights_turned, *slopes_turned;
    float *dk_sums, *dv_sums, *factors;  // of a tile of keys
    float *dq_sums, *means;              // of all queries
    BFloat16 *q_rows, *q_pairs, *o_rows, *o_pairs, *k_pairs, *k_columns, *v_pairs;

    WICK_INLINE Head(const AttentionBackward& of, int64_t batch_index, int64_t head, float* buffer,
                     BFloat16* packed)
        : all(of),
          batch(batch_index),
          shared(head),
          k(of.a_.k, batch, head),
          v(of.a_.v, batch, head),
          dk(of.g_.dk, batch, head),
          dv(of.g_.dv, batch, head) {
      const auto take = [](auto*& from, int64_t count) {
        auto* const taken = from;
        from += count;
        return taken;
      };
      weights = take(buffer, kBlock * kScoreRow);
      slopes = take(buffer, kBlock * kScoreRow);
      weights_turned = take(buffer, kKeys * kScoreRow);
      slopes_turned = take(buffer, kKeys * kScoreRow);
      dk_sums = take(buffer, kKeys * of.q_row_);
      dv_sums = take(buffer, kKeys * of.o_row_);
      factors = take(buffer, kKeys);
      dq_sums = take(buffer, of.all_queries_ * of.q_row_);
      means = buffer;
      q_rows = take(packed, of.all_queries_ * of.q_row_);
      q_pairs = take(packed, of.all_queries_ * of.q_row_);
      o_rows = take(packed, of.all_queries_ * of.o_row_);
      o_pairs = take(packed, of.all_queries_ * of.o_row_);
      k_pairs = take(packed, kKeys * of.q_row_);
      k_columns = take(packed, kKeys * of.q_row_);
      v_pairs = packed;
    }

    WICK_INLINE void compute() const {
      for (int64_t i = 0; i < all.keys_; ++i) {
        __builtin_memset(dk[i], 0, static_cast<size_t>(all.features_) * 4);
        __builtin_memset(dv[i], 0, static_cast<size_t>(all.values_) * 4);
      }
      for (int64_t h = shared * all.group_; h < (shared + 1) * all.group_; ++h) add_head(h);
    }

    // One head of q: all of dq, and its share of dk and dv.
    void add_head(int64_t head) const {
      const HeadRows<float> q(all.a_.q, batch, head), o(all.a_.o, batch, head);
      const HeadRows<float> d_o(all.g_.d_o, batch, head), dq(all.g_.dq, batch, head);
      pack_rows(q, 0, all.queries_, all.features_, q_rows);
      pack_rows(d_o, 0, all.queries_, all.values_, o_rows);
      pack_column_pairs(q, 0, all.queries_, all.features_, q_pairs);
      pack_column_pairs(d_o, 0, all.queries_, all.values_, o_pairs);
      for (int64_t i = 0; i < all.queries_; ++i) {
        means[i] = sum_of_products(d_o[i], o[i], all.values_);
      }
      clear(dq_sums, all.all_queries_ * all.q_row_);
      const int64_t end = all.scores_.keys_before(all.queries_);
      for (int64_t key = 0; key < end; key += kKeys) add_keys(head, key, smaller(kKeys, end - key));
      const auto scale = static_cast<float>(all.a_.scale);
      for (int64_t i = 0; i < all.queries_; ++i) {
        for_vectors<float>(all.features_, [&](int64_t c, int64_t n) {
          store_up_to(VecF::load(dq_sums + i * all.q_row_ + c) * VecF(scale), dq[i] + c, n);
        });
      }
    }

    WICK_INLINE void add_keys(int64_t head, int64_t key, int64_t keys) const {
      const int64_t key_rows = round_up(keys, kBlock);
      pack_row_pairs(k, key, keys, all.features_, k_pairs);
      pack_row_pairs(v, key, keys, all.values_, v_pairs);
      pack_column_pairs(k, key, keys, all.features_, k_columns);
      clear(dk_sums, key_rows * all.q_row_);
      clear(dv_sums, key_rows * all.o_row_);
      const int64_t start = all.scores_.first_query(key) / kBlock * kBlock;
      for (int64_t first = start; first < all.queries_; first += kQueries) {
        const int64_t rows = round_up(smaller(kQueries, all.queries_ - first), kBlock);
        for (int64_t block = 0; block < rows; block += kBlock) {
          add_block(head, key, keys, first + block, block);
        }
        for (int64_t row = 0; row < key_rows; row += kBlock) {
          add_products(all.is_matrix_, weights_turned + row * kScoreRow, kScoreRow,
                       o_pairs + first * all.o_row_, rows, all.o_row_, dv_sums + row * all.o_row_);
          add_products(all.is_matrix_, slopes_turned + row * kScoreRow, kScoreRow,
                       q_pairs + first * all.q_row_, rows, all.q_row_, dk_sums + row * all.q_row_);
        }
      }
      add_rows(dk, key, keys, all.features_, static_cast<float>(all.a_.scale), dk_sums, all.q_row_);
      add_rows(dv, key, keys, all.values_, 1, dv_sums, all.o_row_);
    }

    // 32 queries, which take `place` and those that follow among the turned tiles' columns.
    void add_block(int64_t head, int64_t key, int64_t keys, int64_t query, int64_t place) const {
      const HeadRows<float> stats(all.a_.stats, batch, head);
      const int64_t rows = smaller(kBlock, all.queries_ - query);
      const int64_t shown = smaller(keys, all.scores_.keys_before(query + rows) - key);
      const int64_t columns = round_up(shown, kBlock), all_columns = round_up(keys, kBlock);
      multiply_rows(all.is_matrix_, q_rows + query * all.q_row_, all.q_row_, k_pairs, columns,
                    weights, kScoreRow);
      multiply_rows(all.is_matrix_, o_rows + query * all.o_row_, all.o_row_, v_pairs, columns,
                    slopes, kScoreRow);
      for (int64_t r = 0; r < kBlock; ++r) {
        float *const weight = weights + r * kScoreRow, *const slope = slopes + r * kScoreRow;
        const int64_t used = r < rows ? round_up(shown, kTile) : 0;
        clear(weight + used, all_columns - used);
        clear(slope + used, all_columns - used);
        if (used == 0) continue;
        scale_floats(weight, used, static_cast<float>(all.a_.scale));
        all.scores_.mask_row(batch, head, query + r, key, shown, weight);
        if (all.scores_.drops()) {
          all.scores_.keep_row(batch, head, query + r, key, shown, factors);
          differentiate<true>(weight, slope, used, stats[query + r], means[query + r]);
        } else {
          differentiate<false>(weight, slope, used, stats[query + r], means[query + r]);
        }
      }
      turn(weights, all_columns, weights_turned + place);
      turn(slopes, all_columns, slopes_turned + place);
      for (int64_t r = 0; r < kBlock; ++r) {
        float* const row = slopes + r * kScoreRow;
        for (int64_t i = 0; i < columns; i += kBlock) {
          store_parts(VecF::load(row + i), VecF::load(row + i + kTile), row + i);
        }
      }
      add_products(all.is_matrix_, slopes, kScoreRow, k_columns, columns, all.q_row_,
                   dq_sums + query * all.q_row_);
    }

    // Scores to weights, after dropout, and the gradients of weights to those of scores.
    template <bool kDrops>
    WICK_INLINE void differentiate(float* weights_row, float* slopes_row, int64_t keys,
                                   const float* stats, float mean) const {
      const VecF shift(stats[0]), factor(stats[1]), centre(mean);
      for (int64_t i = 0; i < keys; i += kTile) {
        const VecF weight = exp(VecF::load(weights_row + i) - shift) * factor;
        const VecF slope = VecF::load(slopes_row + i);
        const VecF kept = kDrops ? VecF::load(factors + i) : VecF(1);
        (weight * (slope * kept - centre)).store(slopes_row + i);
        (weight * kept).store(weights_row + i);
      }
    }

    // 32 rows of `columns` elements as columns of 32 elements, split.
    static WICK_INLINE void turn(const float* from, int64_t columns, float* to) {
      for (int64_t column = 0; column < columns; column += kTile, to += kTile * kScoreRow) {
        VecF::Reg low[kTile], high[kTile];
#pragma GCC unroll 16
        for (int64_t i = 0; i < kTile; ++i) {
          low[i] = VecF::load(from + i * kScoreRow + column).reg;
        }
        transpose_square<kTile>(low);
#pragma GCC unroll 16
        for (int64_t i = 0; i < kTile; ++i) {
          high[i] = VecF::load(from + (kTile + i) * kScoreRow + column).reg;
        }
        transpose_square<kTile>(high);
#pragma GCC unroll 16
        for (int64_t i = 0; i < kTile; ++i) {
          store_parts(VecF(low[i]), VecF(high[i]), to + i * kScoreRow);
        }
      }
    }

    static WICK_INLINE void clear(float* to, int64_t count) {
      __builtin_memset(to, 0, static_cast<size_t>(count) * 4);
    }
    static WICK_INLINE void add_rows(const HeadRows<float>& to, int64_t first, int64_t count,
                                     int64_t size, float scale, const float* sums, int64_t row) {
      for (int64_t i = 0; i < count; ++i) {
        for_vectors<float>(size, [&](int64_t c, int64_t n) {
          const VecF sum = VecF::load(sums + i * row + c);
          store_up_to(fma(sum, VecF(scale), load_up_to<float>(to[first + i] + c, n)),
                      to[first + i] + c, n);
        });
      }
    }
  };

  const FusedAttention& a_;
  const FusedAttentionGradients& g_;
  bool is_matrix_;  // else dot products of pairs
  AttentionScores<float> scores_;
  int64_t queries_, keys_, features_, values_;
  int64_t all_queries_;    // in whole blocks
  int64_t q_row_, o_row_;  // elements of a row of features or values, in whole blocks
  int64_t group_;          // heads of q that share one of k
};

// Whether all elements are numbers of bfloat16.
bool holds_halves(const View& x) {
  __m512i rest = _mm512_setzero_si512();
  for (int64_t i = 0; i < x.shape[0] * x.shape[1]; ++i) {
    const HeadRows<float> rows(x, i / x.shape[1], i % x.shape[1]);
    for (int64_t r = 0; r < x.shape[2]; ++r) {
      for_vectors<float>(x.shape[3], [&](int64_t c, int64_t n) {
        rest = _mm512_or_si512(rest, _mm512_castps_si512(load_up_to<float>(rows[r] + c, n).reg));
      });
    }
  }
  return _mm512_test_epi32_mask(rest, _mm512_set1_epi32(0xffff)) == 0;
}

}  // namespace
}  // namespace amx

bool bfloat16_attention_backward(const FusedAttention& a, const FusedAttentionGradients& gradients,
                                 cpu::BFloat16Unit unit, Workspace& workspace) {
  if (!amx::holds_halves(gradients.d_o)) return false;
  amx::AttentionBackward(a, gradients, unit).run(workspace);
  return true;
}

}  // namespace wick::WICK_ISA

#endif
