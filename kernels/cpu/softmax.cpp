#include "wick/kernels/softmax.h"

#include "wick/kernels/axis_split.h"
#include "wick/kernels/cpu/exp_sums.h"

namespace wick::WICK_ISA {

namespace {

constexpr int64_t kColumns = 512;  // neighbouring columns worked on together

// Calls `row(o, stream)` for each contiguous row, or `column(base, width)` for each group of
// neighbouring columns whose first element is at offset `base`.
template <class A, class T, class Row, class Column>
void for_rows_or_columns(const AxisSplit& s, const T* y, const Row& row, const Column& column) {
  if (s.inner == 1) {
    const bool stream = should_stream(y, s.outer, s.size);
    parallel_for(s.outer, row_grain(s.size), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) row(o * s.size, stream);
      if (stream) stream_fence();
    });
    return;
  }
  const int64_t groups = (s.inner + kColumns - 1) / kColumns;
  const int64_t grain = row_grain(s.size * (groups > 1 ? kColumns : s.inner));
  parallel_for(s.outer * groups, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % groups * kColumns;
      const int64_t left = s.inner - first;
      column(i / groups * s.size * s.inner + first, left < kColumns ? left : kColumns);
    }
  });
}

// exp(x[i] - max), kept in `e`; returns their sum.
template <class A, class T, class E>
double exponentials(const T* x, E* e, int64_t size, A max) {
  constexpr A kLowest = -static_cast<A>(__builtin_inf());
  const Vec<A> m(max);
  return sum_row<A>(size, [&](int64_t i, int64_t n) {
    const Vec<A> v = n == Vec<A>::size ? Vec<A>::load(x + i) : load_filled<A>(x + i, n, kLowest);
    const Vec<A> r = exp(v - m);
    store_up_to(r, e + i, n);
    return r;
  });
}

template <class A, class T, class E>
void scale_row(const E* e, T* y, int64_t size, A factor, bool stream) {
  const Vec<A> f(factor);
  for_vectors<A>(size,
                 [&](int64_t i, int64_t n) { put(load_up_to<A>(e + i, n) * f, y + i, n, stream); });
}

// Softmax of a row, or its logarithm.
template <bool kLog, class A, class T>
void softmax_row(const T* x, T* y, int64_t size, bool stream) {
  const A max = max_row<A>(x, size);
  const Vec<A> m(max);
  if constexpr (kLog) {
    const Vec<A> log_sum(static_cast<A>(__builtin_log(sum_of_exponentials<A>(x, size, max))));
    for_vectors<A>(size, [&](int64_t i, int64_t n) {
      put((load_up_to<A>(x + i, n) - m) - log_sum, y + i, n, stream);
    });
  } else if (size <= kRowBuffer) {
    alignas(64) A e[kRowBuffer];
    const double sum = exponentials(x, e, size, max);
    scale_row(e, y, size, static_cast<A>(1 / sum), stream);
  } else {
    const Vec<A> factor(static_cast<A>(1 / sum_of_exponentials(x, size, max)));
    for_vectors<A>(size, [&](int64_t i, int64_t n) {
      put(exp(load_up_to<A>(x + i, n) - m) * factor, y + i, n, stream);
    });
  }
}

// Calls `body(offset, j, n)` for the vectors of `width` columns in each of the rows of `s`.
template <class A, class Body>
WICK_INLINE_ALL void for_column_vectors(const AxisSplit& s, int64_t width, const Body& body) {
  for (int64_t i = 0; i < s.size; ++i) {
    for_vectors<A>(width, [&](int64_t j, int64_t n) { body(i * s.inner + j, j, n); });
  }
}

// sums[j] = the sum of `term(offset, j, n)` down each column, in blocks of 64 rows.
template <class A, class Term>
WICK_INLINE_ALL void sum_columns(const AxisSplit& s, int64_t width, A* sums, const Term& term) {
  constexpr int64_t kRows = 64;
  alignas(64) A block[kColumns];
  for (int64_t j = 0; j < width; ++j) sums[j] = 0;
  for (int64_t first = 0; first < s.size; first += kRows) {
    for (int64_t j = 0; j < kColumns; ++j) block[j] = 0;
    const int64_t last = first + kRows < s.size ? first + kRows : s.size;
    for (int64_t i = first; i < last; ++i) {
      for_vectors<A>(width, [&](int64_t j, int64_t n) {
        store_up_to(load_up_to<A>(block + j, n) + term(i * s.inner + j, j, n), block + j, n);
      });
    }
    for (int64_t j = 0; j < width; ++j) sums[j] += block[j];
  }
}

// The largest elements and the sums of exponentials of a group of columns.
template <class A>
struct ColumnSums {
  alignas(64) A max[kColumns], sum[kColumns];
};

template <class A, class T>
[[gnu::noinline]] void column_sums(const T* x, const AxisSplit& s, int64_t width,
                                   ColumnSums<A>& c) {
  for (int64_t j = 0; j < width; ++j) c.max[j] = -static_cast<A>(__builtin_inf());
  for_column_vectors<A>(s, width, [&](int64_t at, int64_t j, int64_t n) {
    store_up_to(max_or_second(load_up_to<A>(x + at, n), load_up_to<A>(c.max + j, n)), c.max + j, n);
  });
  sum_columns<A>(s, width, c.sum, [&](int64_t at, int64_t j, int64_t n) {
    return exp(load_up_to<A>(x + at, n) - load_up_to<A>(c.max + j, n));
  });
}

// Softmax of a group of columns, or its logarithm.
template <bool kLog, class A, class T>
void softmax_columns(const T* x, T* y, const AxisSplit& s, int64_t width) {
  ColumnSums<A> c;
  column_sums<A>(x, s, width, c);
  if constexpr (kLog) {
    for_vectors<A>(width, [&](int64_t j, int64_t n) {
      store_up_to(log(load_up_to<A>(c.sum + j, n)), c.sum + j, n);
    });
  }
  for_column_vectors<A>(s, width, [&](int64_t at, int64_t j, int64_t n) {
    const Vec<A> d = load_up_to<A>(x + at, n) - load_up_to<A>(c.max + j, n);
    const Vec<A> sum = load_up_to<A>(c.sum + j, n);
    store_up_to(kLog ? d - sum : exp(d) / sum, y + at, n);
  });
}

template <bool kLog>
void run_softmax(const View& x, const View& y, int axis) {
  const AxisSplit s = split_at(x, axis);
  visit_floating(x.dtype, [&]<class T>(Type<T>) {
    using A = Accumulator<T>;
    const T* in = x.as<T>();
    T* out = y.as<T>();
    for_rows_or_columns<A>(
        s, out,
        [&](int64_t row, bool stream) {
          softmax_row<kLog, A>(in + row, out + row, s.size, stream);
        },
        [&](int64_t base, int64_t width) {
          softmax_columns<kLog, A>(in + base, out + base, s, width);
        });
  });
}

// The gradient at `n` elements, and what they add to the sum that all of a row or column share.
template <bool kLog, class A, class T>
struct SoftmaxGradient {
  const T *dy, *y;

  WICK_INLINE Vec<A> term(int64_t i, int64_t n) const {
    const Vec<A> g = load_up_to<A>(dy + i, n);
    return kLog ? g : g * load_up_to<A>(y + i, n);
  }
  WICK_INLINE Vec<A> dx(int64_t i, int64_t n, Vec<A> sum) const {
    const Vec<A> g = load_up_to<A>(dy + i, n), v = load_up_to<A>(y + i, n);
    return kLog ? g - exp(v) * sum : (g - sum) * v;
  }
};

template <bool kLog>
void run_softmax_backward(const View& dy, const View& y, const View& dx, int axis) {
  const AxisSplit s = split_at(y, axis);
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    using A = Accumulator<T>;
    T* in = dx.as<T>();
    for_rows_or_columns<A>(
        s, in,
        [&](int64_t row, bool stream) {
          const SoftmaxGradient<kLog, A, T> g{dy.as<T>() + row, y.as<T>() + row};
          const Vec<A> sum(static_cast<A>(
              sum_row<A>(s.size, [&](int64_t i, int64_t n) { return g.term(i, n); })));
          for_vectors<A>(
              s.size, [&](int64_t i, int64_t n) { put(g.dx(i, n, sum), in + row + i, n, stream); });
        },
        [&](int64_t base, int64_t width) {
          const SoftmaxGradient<kLog, A, T> g{dy.as<T>() + base, y.as<T>() + base};
          alignas(64) A sums[kColumns];
          sum_columns<A>(s, width, sums,
                         [&](int64_t at, int64_t, int64_t n) { return g.term(at, n); });
          for_column_vectors<A>(s, width, [&](int64_t at, int64_t j, int64_t n) {
            store_up_to(g.dx(at, n, load_up_to<A>(sums + j, n)), in + base + at, n);
          });
        });
  });
}

}  // namespace

void softmax_forward(const View& x, const View& y, int axis, bool log) {
  log ? run_softmax<true>(x, y, axis) : run_softmax<false>(x, y, axis);
}

void softmax_backward(const View& dy, const View& y, const View& dx, int axis, bool log) {
  log ? run_softmax_backward<true>(dy, y, dx, axis) : run_softmax_backward<false>(dy, y, dx, axis);
}

}  // namespace wick::WICK_ISA
