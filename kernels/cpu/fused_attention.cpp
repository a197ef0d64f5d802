#include "wick/kernels/fused_attention.h"

#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/amx.h"
#include "wick/kernels/cpu/attention_scores.h"
#include "wick/kernels/cpu/product.h"
#include "wick/kernels/cpu/product_pack.h"

// Scores are computed in tiles that stay in the cache. Each query keeps the largest score and the
// sum of exponentials of the keys so far; backward computes the scores again.
// Milakov, Gimelshein: Online normalizer calculation for softmax (2018, arXiv 1805.02867).
// Dao et al.: FlashAttention (NeurIPS 2022, arXiv 2205.14135).
namespace wick::WICK_ISA {

namespace {

constexpr int64_t kQueries = 96;    // of a tile of scores
constexpr int64_t kQueryTiles = 8;  // that keys are packed for once, at most

template <class A>
struct LeftFactor {
  const A* data;
  int64_t row, step;  // from one row to the next, from one k to the next
};
template <class A>
struct RightFactor {
  const A* data;
  int64_t step;   // from one k to the next
  int64_t panel;  // from kTileColumns columns to the next
  bool padded;    // whether a panel's rows have kTileColumns elements
};

/// Rows of neighbours, as they lie in memory.
template <class A>
WICK_INLINE RightFactor<A> in_place(const HeadRows<A>& rows, int64_t first) {
  return {rows[first], rows.step, kTileColumns<A>, false};
}

/// c = a · b, or c + a · b with `adds`.
template <class A>
void multiply_factors(int64_t rows, int64_t columns, int64_t inner, const LeftFactor<A>& a,
                      const RightFactor<A>& b, A* c, int64_t c_row, bool adds) {
  for (int64_t column = 0; column < columns; column += kTileColumns<A>) {
    Tile<A> tile{.inner = inner, .a_row = a.row, .a_step = a.step};
    tile.b = b.data + column / kTileColumns<A> * b.panel;
    tile.b_step = b.step;
    tile.padded = b.padded;
    tile.c_row = c_row;
    tile.width = smaller(kTileColumns<A>, columns - column);
    tile.start_row = adds ? c_row : 0;
    for (int64_t begin = 0, count = 0; begin < rows; begin += count) {
      count = tile_rows<A>(rows - begin, columns);
      tile.a = a.data + begin * a.row;
      tile.c = c + begin * c_row + column;
      tile.start = adds ? tile.c : nullptr;
      multiply_tile(count, tile);
    }
  }
}

/// The transpose of `count` rows of `size` elements, to be a right factor.
template <class A>
RightFactor<A> packed_transpose(const HeadRows<A>& rows, int64_t first, int64_t count, int64_t size,
                                A* to) {
  for (int64_t column = 0; column < count; column += kTileColumns<A>) {
    pack_columns(rows[first + column], 1, rows.step, size, smaller(kTileColumns<A>, count - column),
                 to + column * size);
  }
  return {to, kTileColumns<A>, kTileColumns<A> * size, true};
}

template <class A>
class AttentionForward {
 public:
  WICK_INLINE explicit AttentionForward(const FusedAttention& a)
      : a_(a),
        scores_(a),
        queries_(a.q.shape[2]),
        features_(a.q.shape[3]),
        values_(a.v.shape[3]),
        group_(a.q.shape[1] / a.k.shape[1]) {
    // Four pieces for each thread. A query's result does not depend on the piece it is in.
    const int64_t heads = larger(1, a.q.shape[0] * a.q.shape[1]);
    const int64_t pieces = (4 * num_threads() + heads - 1) / heads;
    rows_ = smaller(kQueryTiles * kQueries, round_up((queries_ + pieces - 1) / pieces, kQueries));
  }

  WICK_INLINE void run(Workspace& workspace) const {
    const int64_t blocks = (queries_ + rows_ - 1) / rows_, heads = a_.q.shape[1];
    const int64_t count = a_.q.shape[0] * heads * blocks;
    const int64_t each =
        round_up(rows_ * (features_ + 2) + kKeys * (features_ + 1) + kQueries * kScoreRow, 16);
    const int64_t threads = smaller(num_threads(), count);
    A* const buffers =
        static_cast<A*>(workspace.allocate(static_cast<size_t>(each * threads) * sizeof(A)));
    parallel_for_threads(count, threads, [&](int64_t thread, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % blocks * rows_;
        compute(i / blocks / heads, i / blocks % heads, first, smaller(rows_, queries_ - first),
                buffers + thread * each);
      }
    });
    workspace.release(buffers);
  }

 private:
  void compute(int64_t batch, int64_t head, int64_t first, int64_t rows, A* buffer) const {
    const HeadRows<A> q(a_.q, batch, head), o(a_.o, batch, head), stats(a_.stats, batch, head);
    const HeadRows<A> k(a_.k, batch, head / group_), v(a_.v, batch, head / group_);
    A* const scaled = buffer;
    A* const packed = scaled + rows_ * features_;
    A* const scores = packed + kKeys * features_;
    A* const most = scores + kQueries * kScoreRow;
    A* const sums = most + rows_;
    A* const factors = sums + rows_;
    const Vec<A> scale(static_cast<A>(a_.scale));
    for (int64_t r = 0; r < rows; ++r) {
      for_vectors<A>(features_, [&](int64_t i, int64_t n) {
        store_up_to(load_up_to<A>(q[first + r] + i, n) * scale, scaled + r * features_ + i, n);
      });
      most[r] = kExcludedScore<A>;
      sums[r] = 0;
    }
    const int64_t end = scores_.keys_before(first + rows);
    for (int64_t key = 0; key < end; key += kKeys) {
      const RightFactor<A> right =
          packed_transpose(k, key, smaller(kKeys, end - key), features_, packed);
      for (int64_t tile = 0; tile < rows; tile += kQueries) {
        const int64_t tile_rows = smaller(kQueries, rows - tile);
        const int64_t keys = smaller(kKeys, scores_.keys_before(first + tile + tile_rows) - key);
        if (keys <= 0) continue;
        multiply_factors(tile_rows, keys, features_, {scaled + tile * features_, features_, 1},
                         right, scores, kScoreRow, false);
        for (int64_t r = 0; r < tile_rows; ++r) {
          const int64_t query = first + tile + r;
          A* const row = scores + r * kScoreRow;
          scores_.mask_row(batch, head, query, key, keys, row);
          const A shrink = weigh_scores(row, keys, most[tile + r], sums[tile + r],
                                        [row](int64_t i, Vec<A> e) { e.store(row + i); });
          if (shrink != 1) scale_by(o[query], shrink);
          if (!scores_.drops()) continue;
          scores_.keep_row(batch, head, query, key, keys, factors);
          for_vectors<A>(round_up(keys, kSumLanes<A>), [&](int64_t i, int64_t) {
            (Vec<A>::load(row + i) * Vec<A>::load(factors + i)).store(row + i);
          });
        }
        multiply_factors(tile_rows, values_, keys, {scores, kScoreRow, 1}, in_place(v, key),
                         o[first + tile], o.step, key > 0);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      const A factor = sums[r] == 0 ? A(0) : 1 / sums[r];
      scale_by(o[first + r], factor);
      stats[first + r][0] = most[r] == kExcludedScore<A> ? A(0) : most[r];
      stats[first + r][1] = factor;
    }
  }

  WICK_INLINE void scale_by(A* o, A factor) const {
    for_vectors<A>(values_, [&](int64_t i, int64_t n) {
      store_up_to(load_up_to<A>(o + i, n) * Vec<A>(factor), o + i, n);
    });
  }

  const FusedAttention& a_;
  AttentionScores<A> scores_;
  int64_t queries_, features_, values_;
  int64_t group_;  // heads of q that share one of k
  int64_t rows_;   // queries of a piece
};

template <class A>
class AttentionBackward {
 public:
  WICK_INLINE AttentionBackward(const FusedAttention& a, const FusedAttentionGradients& g)
      : a_(a),
        g_(g),
        scores_(a),
        queries_(a.q.shape[2]),
        keys_(a.k.shape[2]),
        features_(a.q.shape[3]),
        values_(a.v.shape[3]),
        group_(a.q.shape[1] / a.k.shape[1]) {}

  WICK_INLINE void run(Workspace& workspace) const {
    const int64_t heads = a_.k.shape[1], count = a_.k.shape[0] * heads;
    const int64_t each = round_up(queries_ * (features_ + 1) + kKeys * (features_ + values_) +
                                      2 * kQueries * kScoreRow + kKeys + 48,
                                  16);
    const int64_t threads = smaller(num_threads(), count);
    A* const buffers =
        static_cast<A*>(workspace.allocate(static_cast<size_t>(each * threads) * sizeof(A)));
    parallel_for_threads(count, threads, [&](int64_t thread, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / heads, head = i % heads;
        clear(HeadRows<A>(g_.dk, batch, head), keys_, features_);
        clear(HeadRows<A>(g_.dv, batch, head), keys_, values_);
        for (int64_t h = head * group_; h < (head + 1) * group_; ++h) {
          compute(batch, h, buffers + thread * each);
        }
      }
    });
    workspace.release(buffers);
  }

 private:
  static WICK_INLINE void clear(const HeadRows<A>& x, int64_t rows, int64_t size) {
    for (int64_t r = 0; r < rows; ++r) {
      __builtin_memset(x[r], 0, static_cast<size_t>(size) * sizeof(A));
    }
  }

  // One head of q: all of dq, and its share of dk and dv.
  void compute(int64_t batch, int64_t head, A* buffer) const {
    const HeadRows<A> q(a_.q, batch, head), o(a_.o, batch, head), stats(a_.stats, batch, head);
    const HeadRows<A> d_o(g_.d_o, batch, head), dq(g_.dq, batch, head);
    const HeadRows<A> k(a_.k, batch, head / group_), v(a_.v, batch, head / group_);
    const HeadRows<A> dk(g_.dk, batch, head / group_), dv(g_.dv, batch, head / group_);
    A* const scaled = buffer;
    A* const packed_k = scaled + round_up(queries_ * features_, 16);
    A* const packed_v = packed_k + kKeys * features_;
    A* const weights = packed_v + kKeys * values_;
    A* const slopes = weights + kQueries * kScoreRow;
    A* const factors = slopes + kQueries * kScoreRow;
    A* const means = factors + kKeys;
    const Vec<A> scale(static_cast<A>(a_.scale));
    for (int64_t i = 0; i < queries_; ++i) {
      for_vectors<A>(features_, [&](int64_t c, int64_t n) {
        store_up_to(load_up_to<A>(q[i] + c, n) * scale, scaled + i * features_ + c, n);
      });
      means[i] = sum_of_products(d_o[i], o[i], values_);
    }
    clear(dq, queries_, features_);
    const int64_t end = scores_.keys_before(queries_);
    for (int64_t key = 0; key < end; key += kKeys) {
      const int64_t keys = smaller(kKeys, end - key);
      const RightFactor<A> of_k = packed_transpose(k, key, keys, features_, packed_k);
      const RightFactor<A> of_v = packed_transpose(v, key, keys, values_, packed_v);
      const int64_t start = scores_.first_query(key) / kQueries * kQueries;
      for (int64_t first = start; first < queries_; first += kQueries) {
        const int64_t rows = smaller(kQueries, queries_ - first);
        A* const scaled_rows = scaled + first * features_;
        multiply_factors(rows, keys, features_, {scaled_rows, features_, 1}, of_k, weights,
                         kScoreRow, false);
        multiply_factors(rows, keys, values_, {d_o[first], d_o.step, 1}, of_v, slopes, kScoreRow,
                         false);
        for (int64_t r = 0; r < rows; ++r) {
          A* const row = weights + r * kScoreRow;
          scores_.mask_row(batch, head, first + r, key, keys, row);
          if (scores_.drops()) {
            scores_.keep_row(batch, head, first + r, key, keys, factors);
          }
          differentiate(row, slopes + r * kScoreRow, factors, keys, stats[first + r],
                        means[first + r]);
        }
        multiply_factors(keys, values_, rows, {weights, 1, kScoreRow}, in_place(d_o, first),
                         dv[key], dv.step, true);
        multiply_factors(rows, features_, keys, {slopes, kScoreRow, 1}, in_place(k, key), dq[first],
                         dq.step, true);
        multiply_factors(keys, features_, rows, {slopes, 1, kScoreRow},
                         {scaled_rows, features_, kTileColumns<A>, false}, dk[key], dk.step, true);
      }
    }
    for (int64_t i = 0; i < queries_; ++i) {
      for_vectors<A>(features_, [&](int64_t c, int64_t n) {
        store_up_to(load_up_to<A>(dq[i] + c, n) * scale, dq[i] + c, n);
      });
    }
  }

  // Scores to weights, after dropout, and the gradients of weights to those of scores.
  WICK_INLINE void differentiate(A* weights, A* slopes, const A* factors, int64_t keys,
                                 const A* stats, A mean) const {
    const Vec<A> shift(stats[0]), factor(stats[1]), centre(mean);
    const bool drops = scores_.drops();
    for (int64_t i = 0; i < keys; i += Vec<A>::size) {
      const Vec<A> weight = exp(Vec<A>::load(weights + i) - shift) * factor;
      const Vec<A> slope = Vec<A>::load(slopes + i);
      const Vec<A> kept = drops ? Vec<A>::load(factors + i) : Vec<A>(A(1));
      (weight * (slope * kept - centre)).store(slopes + i);
      (weight * kept).store(weights + i);
    }
  }

  const FusedAttention& a_;
  const FusedAttentionGradients& g_;
  AttentionScores<A> scores_;
  int64_t queries_, keys_, features_, values_;
  int64_t group_;  // heads of q that share one of k
};

}  // namespace

void fused_attention(const FusedAttention& a, Workspace& workspace) {
#ifdef __AVX512F__
  const cpu::BFloat16Unit unit = cpu::bfloat16_unit();
  if (a.is_bfloat16 && unit != cpu::BFloat16Unit::kFloat32) {
    return bfloat16_attention(a, unit, workspace);
  }
#endif
  if (a.q.dtype == Dtype::kFloat64) return AttentionForward<double>(a).run(workspace);
  AttentionForward<float>(a).run(workspace);
}

void fused_attention_backward(const FusedAttention& a, const FusedAttentionGradients& gradients,
                              Workspace& workspace) {
#ifdef __AVX512F__
  const cpu::BFloat16Unit unit = cpu::bfloat16_unit();
  if (a.is_bfloat16 && unit != cpu::BFloat16Unit::kFloat32 &&
      bfloat16_attention_backward(a, gradients, unit, workspace)) {
    return;
  }
#endif
  if (a.q.dtype == Dtype::kFloat64) {
    return AttentionBackward<double>(a, gradients).run(workspace);
  }
  AttentionBackward<float>(a, gradients).run(workspace);
}

}  // namespace wick::WICK_ISA
