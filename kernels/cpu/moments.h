#pragma once

#include "wick/kernels/cpu/rows.h"

// Means and squared deviations in one pass over memory: block by block, each block's in two passes
// over the cache, joined in double (Chan, Golub, LeVeque: Updating formulae and a pairwise
// algorithm for computing sample variances, 1979). Exact to about 1e-7 for any offset.
namespace wick::WICK_ISA {

/// Count, mean and sum of squared deviations from it.
struct Moments {
  double count = 0, mean = 0, m2 = 0;

  WICK_INLINE void join(double n, double other_mean, double other_m2) {
    if (n == 0) return;
    const double total = count + n, delta = other_mean - mean;
    mean += delta * (n / total);
    m2 += other_m2 + delta * delta * (count * n / total);
    count = total;
  }
  /// `sum` and `squares` of the deviations of n elements from `origin`.
  WICK_INLINE void join_block(double n, double origin, double sum, double squares) {
    join(n, origin + sum / n, squares - sum * sum / n);
  }
};

/// Adds `n` <= 4096 elements of a row to `m`.
template <class L, class T>
[[gnu::noinline, gnu::flatten]] void add_block(const T* x, int64_t n, Moments& m) {
  constexpr int64_t kLanes = Vec<L>::size, kGroup = kSumLanes<L>;
  const double sum = sum_row<L>(n, [&](int64_t i, int64_t k) { return load_up_to<L>(x + i, k); });
  const L origin = static_cast<L>(sum / static_cast<double>(n));
  const Vec<L> o(origin);
  LaneSums<L> sums[2], squares[2];
  const auto add = [&](Vec<L> v, int64_t turn, int64_t part) {
    const Vec<L> deviation = v - o;
    sums[turn][part] += deviation;
    squares[turn][part] = fma(deviation, deviation, squares[turn][part]);
  };
  int64_t i = 0;
  for (; i + 2 * kGroup <= n; i += 2 * kGroup) {
#pragma GCC unroll 2
    for (int64_t part = 0; part < LaneSums<L>::kParts; ++part) {
      add(Vec<L>::load(x + i + part * kLanes), 0, part);
      add(Vec<L>::load(x + i + kGroup + part * kLanes), 1, part);
    }
  }
  for_sum_lanes<L>(i, n, [&](int64_t at, int64_t left, int64_t part) {
    add(left >= kLanes ? Vec<L>::load(x + at) : load_filled<L>(x + at, left, origin), 0, part);
  });
  m.join_block(static_cast<double>(n), static_cast<double>(origin),
               static_cast<double>((sums[0] + sums[1]).total()),
               static_cast<double>((squares[0] + squares[1]).total()));
}

/// Adds a row of any length.
template <class L, class T>
void add_row(const T* x, int64_t size, Moments& m) {
  for (int64_t i = 0; i < size; i += 4096) {
    add_block<L>(x + i, size - i < 4096 ? size - i : 4096, m);
  }
}

/// Adds many rows of `size` elements, `stride` apart; short ones are gathered into blocks first.
template <class L, class T>
void add_rows(const T* x, int64_t rows, int64_t size, int64_t stride, Moments& m) {
  constexpr int64_t kBuffer = 2048;
  if (size >= kBuffer / 4) {
    for (int64_t r = 0; r < rows; ++r) add_row<L>(x + r * stride, size, m);
    return;
  }
  alignas(64) L buffer[kBuffer];
  int64_t filled = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < size; ++i) buffer[filled++] = static_cast<L>(x[r * stride + i]);
    if (filled + size > kBuffer || r + 1 == rows) {
      add_block<L>(static_cast<const L*>(buffer), filled, m);
      filled = 0;
    }
  }
}

/// Of V vectors of neighbouring columns over `rows` rows: the means as rounded, and sums and
/// squares of the deviations from them. `left` lanes of the last vector count.
template <class L, int V, class T>
WICK_INLINE_ALL void column_block(const T* x, int64_t rows, int64_t stride, int64_t left, L* origin,
                                  L* sums, L* squares) {
  constexpr int64_t kLanes = Vec<L>::size;
  const auto load = [&](int64_t r, int v) {
    const T* p = x + r * stride + v * kLanes;
    return V > 1 ? Vec<L>::load(p) : load_up_to<L>(p, left);
  };
  Vec<L> o[V], s[V], q[V];
  for (int v = 0; v < V; ++v) o[v] = s[v] = q[v] = Vec<L>(0);
  for (int64_t r = 0; r < rows; ++r) {
    for (int v = 0; v < V; ++v) o[v] += load(r, v);
  }
  for (int v = 0; v < V; ++v) o[v] *= Vec<L>(1 / static_cast<L>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    for (int v = 0; v < V; ++v) {
      const Vec<L> d = load(r, v) - o[v];
      s[v] += d;
      q[v] = fma(d, d, q[v]);
    }
  }
  for (int v = 0; v < V; ++v) {
    o[v].store(origin + v * kLanes);
    s[v].store(sums + v * kLanes);
    q[v].store(squares + v * kLanes);
  }
}

/// Means and squared deviations of each of `channels` columns over `rows` rows, `channels` apart.
template <class L, class T>
[[gnu::noinline, gnu::flatten]] void column_moments(const T* x, int64_t rows, int64_t channels,
                                                    double* mean, double* m2) {
  constexpr int64_t kLanes = Vec<L>::size, kRows = 64, kWide = 4;
  for (int64_t c = 0; c < channels; ++c) mean[c] = m2[c] = 0;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = rows - first < kRows ? rows - first : kRows;
    const double n = static_cast<double>(count), before = static_cast<double>(first);
    const double inverse = 1 / n, share = n / (n + before), weight = before * share;
    for (int64_t c = 0; c < channels;) {
      alignas(64) L origin[kLanes * kWide], sums[kLanes * kWide], squares[kLanes * kWide];
      const T* block = x + first * channels + c;
      int64_t used = channels - c;
      if (used >= kLanes * kWide) {
        used = kLanes * kWide;
        column_block<L, kWide>(block, count, channels, kLanes, origin, sums, squares);
      } else {
        used = used < kLanes ? used : kLanes;
        column_block<L, 1>(block, count, channels, used, origin, sums, squares);
      }
      for (int64_t i = 0; i < used; ++i) {
        const double sum = static_cast<double>(sums[i]), square = static_cast<double>(squares[i]);
        const double delta = static_cast<double>(origin[i]) + sum * inverse - mean[c + i];
        mean[c + i] += delta * share;
        m2[c + i] += square - sum * sum * inverse + delta * delta * weight;
      }
      c += used;
    }
  }
}

}  // namespace wick::WICK_ISA
