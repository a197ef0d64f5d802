#include "wick/core/base/parallel.h"
#include "wick/kernels/axis_split.h"
#include "wick/kernels/cpu/simd_lanes.h"
#include "wick/kernels/reduce.h"

namespace wick::WICK_ISA {

namespace {

// Whether `v` takes the place of `best`, which comes before it. The first NaN beats all.
template <bool kLargest, class V>
WICK_INLINE bool beats(V v, V best) {
  if (best != best) return false;
  return (kLargest ? v > best : v < best) || v != v;
}

// Positions of the first best of `width` neighbouring columns.
template <bool kLargest, class T>
void best_of_columns(const T* x, const AxisSplit& s, int64_t width, int64_t* y) {
  using V = Accumulator<T>;
  constexpr int64_t kTile = 64;
  for (int64_t first = 0; first < width; first += kTile) {
    const int64_t count = width - first < kTile ? width - first : kTile;
    V best[kTile];
    for (int64_t j = 0; j < count; ++j) {
      best[j] = static_cast<V>(x[first + j]);
      y[first + j] = 0;
    }
    for (int64_t i = 1; i < s.size; ++i) {
      const T* row = x + i * s.inner + first;
      for (int64_t j = 0; j < count; ++j) {
        const V v = static_cast<V>(row[j]);
        if (!beats<kLargest>(v, best[j])) continue;
        best[j] = v;
        y[first + j] = i;
      }
    }
  }
}

// The best value of a row, then where it first occurs.
template <bool kLargest, class T>
int64_t best_of_row(const T* x, int64_t size) {
  if constexpr (std::is_integral_v<T>) {
    int64_t best = 0;
    for (int64_t i = 1; i < size; ++i) {
      if (beats<kLargest>(x[i], x[best])) best = i;
    }
    return best;
  } else {
    using A = Accumulator<T>;
    using V = Vec<A>;
    const auto better = [](V a, V b) { return kLargest ? max(a, b) : min(a, b); };
    V best[4];
    for (V& b : best) b = V(static_cast<A>(x[0]));
    int64_t i = 0;
    for (; i + 4 * V::size <= size; i += 4 * V::size) {
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) best[q] = better(best[q], V::load(x + i + q * V::size));
    }
    for (; i + V::size <= size; i += V::size) best[0] = better(best[0], V::load(x + i));
    const V all = better(better(best[0], best[1]), better(best[2], best[3]));
    A value = kLargest ? reduce_max(all) : reduce_min(all);
    for (; i < size; ++i) {
      const A v = static_cast<A>(x[i]);
      if (beats<kLargest>(v, value)) value = v;
    }
    const bool nan = value != value;
    for (i = 0; i + V::size <= size; i += V::size) {
      const V v = V::load(x + i);
      if (any(nan ? isnan(v) : v == V(value))) break;
    }
    for (; i < size; ++i) {
      const A v = static_cast<A>(x[i]);
      if (nan ? v != v : v == value) break;
    }
    return i;
  }
}

template <bool kLargest, class T>
void run(const T* x, const AxisSplit& s, int64_t* y) {
  const int64_t each = s.size * s.inner;
  parallel_for(s.outer, each >= 32768 ? 1 : 32768 / each, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      if (s.inner == 1) {
        y[o] = best_of_row<kLargest>(x + o * each, s.size);
      } else {
        best_of_columns<kLargest>(x + o * each, s, s.inner, y + o * s.inner);
      }
    }
  });
}

}  // namespace

void arg_reduce(const View& x, const View& y, int axis, bool largest, Workspace&) {
  const AxisSplit s = split_at(x, axis);
  const auto visit = [&]<class T>(Type<T>) {
    if (largest) {
      run<true>(x.as<T>(), s, y.as<int64_t>());
    } else {
      run<false>(x.as<T>(), s, y.as<int64_t>());
    }
  };
  if (x.dtype == Dtype::kBool) return visit(Type<uint8_t>{});
  visit_dtype(x.dtype, [&]<class T>(Type<T> type) {
    if constexpr (!std::is_same_v<T, bool>) visit(type);
  });
}

}  // namespace wick::WICK_ISA
