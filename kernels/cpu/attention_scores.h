#pragma once

#include "wick/kernels/cpu/philox_lanes.h"
#include "wick/kernels/cpu/rows.h"
#include "wick/kernels/cpu/simd_math.h"
#include "wick/kernels/fused_attention.h"

// What the kernels of attention share: tiles of scores, and what becomes of them between the
// products.
namespace wick::WICK_ISA {

inline constexpr int64_t kKeys = 128;  // of a tile of scores
// No power of two: a column's lines are all cached.
inline constexpr int64_t kScoreRow = kKeys + 16;

template <class A>
inline constexpr A kExcludedScore = -static_cast<A>(__builtin_inf());

/// One head of a tensor.
template <class A>
struct HeadRows {
  A* data;
  int64_t step;

  WICK_INLINE HeadRows(const View& x, int64_t batch, int64_t head)
      : data(x.as<A>() + batch * x.strides[0] + head * x.strides[1]), step(x.strides[2]) {}
  WICK_INLINE A* operator[](int64_t row) const { return data + row * step; }
};

/// What tiles of scores are made of, but for the product.
template <class A>
class AttentionScores {
 public:
  WICK_INLINE explicit AttentionScores(const FusedAttention& a)
      : a_(a),
        queries_(a.q.shape[2]),
        keys_(a.k.shape[2]),
        kept_(static_cast<A>(1 / (1 - a.dropout_p))),
        limit_(words_of_events(a.dropout_p)) {}

  /// How many of the first keys any of the queries before `query` may see.
  WICK_INLINE int64_t keys_before(int64_t query) const {
    return a_.is_causal ? smaller(query, keys_) : keys_;
  }
  /// The first query that may see `key`.
  WICK_INLINE int64_t first_query(int64_t key) const { return a_.is_causal ? key : 0; }

  /// Adds the mask to the scores of one query for `keys` keys from `key` on, and excludes keys up
  /// to the end of a group of kSumLanes.
  WICK_INLINE void mask_row(int64_t batch, int64_t head, int64_t query, int64_t key, int64_t keys,
                            A* row) const {
    if (a_.mask.defined()) {
      const Strides& s = a_.mask.strides;
      add_mask(batch * s[0] + head * s[1] + query * s[2] + key * s[3], keys, row);
    }
    const int64_t seen = a_.is_causal ? larger(0, smaller(keys, query + 1 - key)) : keys;
    for (int64_t j = seen; j < round_up(keys, kSumLanes<A>); ++j) row[j] = kExcludedScore<A>;
  }

  WICK_INLINE bool drops() const { return a_.dropout_p > 0; }
  /// What dropout multiplies the weights of one query by.
  void keep_row(int64_t batch, int64_t head, int64_t query, int64_t key, int64_t keys,
                A* factors) const {
    const int64_t first = ((batch * a_.q.shape[1] + head) * queries_ + query) * keys_ + key;
    alignas(64) uint32_t words[kUnit];
    for (int64_t done = 0; done < keys;) {
      const int64_t unit = (first + done) / kUnit, skipped = (first + done) % kUnit;
      const int64_t count = smaller(kUnit - skipped, keys - done);
      make_words(a_.key, unit, words);
      for (int64_t i = 0; i < count; ++i) {
        factors[done + i] = words[skipped + i] < limit_ ? A(0) : kept_;
      }
      done += count;
    }
    for (int64_t j = keys; j < round_up(keys, kSumLanes<A>); ++j) factors[j] = 0;
  }

 private:
  WICK_INLINE void add_mask(int64_t offset, int64_t keys, A* row) const {
    const int64_t step = a_.mask.strides[3];
    if (a_.mask.dtype == Dtype::kBool) {
      const bool* const sees = a_.mask.as<const bool>() + offset;
      for (int64_t j = 0; j < keys; ++j) row[j] = sees[j * step] ? row[j] : kExcludedScore<A>;
    } else {
      const A* const added = a_.mask.as<const A>() + offset;
      for (int64_t j = 0; j < keys; ++j) row[j] += added[j * step];
    }
  }

  const FusedAttention& a_;
  int64_t queries_, keys_;
  A kept_;          // what dropout multiplies the weights that stay by
  uint32_t limit_;  // random words below it drop a weight
};

/// The sum over a row of whole groups of kSumLanes of `term(i)`.
template <class A, class Term>
WICK_INLINE_ALL A sum_groups(int64_t size, const Term& term) {
  LaneSums<A> sums;
  for_sum_lanes<A>(0, size, [&](int64_t i, int64_t, int64_t part) { sums[part] += term(i); });
  return sums.total();
}

/// The sum of a[i] b[i].
template <class A>
WICK_INLINE A sum_of_products(const A* a, const A* b, int64_t size) {
  return sum_groups<A>(round_up(size, kSumLanes<A>), [&](int64_t i) {
    const int64_t left = larger(0, size - i);
    return load_up_to<A>(a + i, left) * load_up_to<A>(b + i, left);
  });
}

/// Calls `store(i, exponentials)` for the vectors of a row of scores: each exponential is of what a
/// score is above the largest one so far, `most`. Returns what the results of earlier keys, if any
/// counted, shrink by; `sum`, of all exponentials, shrinks here. Elements up to the end of a group
/// of kSumLanes are to be excluded already.
template <class A, class Store>
WICK_INLINE_ALL A weigh_scores(const A* row, int64_t keys, A& most, A& sum, const Store& store) {
  const A before = most, here = max_row<A>(row, keys);
  if (here > most) most = here;
  const Vec<A> shift(most == kExcludedScore<A> ? A(0) : most);
  const A added = sum_groups<A>(round_up(keys, kSumLanes<A>), [&](int64_t i) {
    const Vec<A> e = exp(Vec<A>::load(row + i) - shift);
    store(i, e);
    return e;
  });
  A shrink = 1;
  if (most > before && before != kExcludedScore<A>) {
    shrink = first_lane(exp(Vec<A>(before) - shift));
    sum *= shrink;
  }
  sum += added;
  return shrink;
}

}  // namespace wick::WICK_ISA
