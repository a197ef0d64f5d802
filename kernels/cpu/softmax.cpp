#include "wick/kernels/softmax.h"

#include "wick/kernels/axis_split.h"
#include "wick/kernels/cpu/exp_sums.h"

namespace wick::WICK_ISA {

namespace {

// Calls `row(o, stream)` for each contiguous row, or `column(base, n)` for each group of n
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
  constexpr int64_t kLanes = Vec<A>::size;
  const int64_t groups = (s.inner + kLanes - 1) / kLanes;
  parallel_for(s.outer * groups, row_grain(s.size * kLanes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % groups * kLanes;
      const int64_t left = s.inner - first;
      column(i / groups * s.size * s.inner + first, left < kLanes ? left : kLanes);
    }
  });
}

// exp(x[i] - max), kept in `e`; returns their sum.
template <class A, class T, class E>
double exponentials(const T* x, E* e, int64_t size, A max) {
  constexpr A kLowest = -static_cast<A>(__builtin_inf());
  const Vec<A> m(max);
  return sum_row<A>(
      size, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
        const Vec<A> v =
            n == Vec<A>::size ? Vec<A>::load(x + i) : load_filled<A>(x + i, n, kLowest);
        const Vec<A> r = exp(v - m);
        store_up_to(r, e + i, n);
        return r;
      });
}

template <class A, class T, class E>
void scale_row(const E* e, T* y, int64_t size, A factor, bool stream) {
  const Vec<A> f(factor);
  for_vectors<A>(
      size, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
        put(load_up_to<A>(e + i, n) * f, y + i, n, stream);
      });
}

template <class A, class T>
void softmax_row(const T* x, T* y, int64_t size, bool stream) {
  const A max = max_row<A>(x, size);
  if (size <= kRowBuffer) {
    alignas(64) A e[kRowBuffer];
    const double sum = exponentials(x, e, size, max);
    scale_row(e, y, size, static_cast<A>(1 / sum), stream);
    return;
  }
  const A factor = static_cast<A>(1 / sum_of_exponentials(x, size, max));
  const Vec<A> m(max), f(factor);
  for_vectors<A>(
      size, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
        put(exp(load_up_to<A>(x + i, n) - m) * f, y + i, n, stream);
      });
}

// The largest elements and the sums of exponentials of a group of columns.
template <class A>
struct ColumnSums {
  Vec<A> max, sum;
};

template <class A, class T>
ColumnSums<A> column_sums(const T* x, const AxisSplit& s, int64_t n) {
  ColumnSums<A> c{Vec<A>(-static_cast<A>(__builtin_inf())), Vec<A>(0)};
  for (int64_t i = 0; i < s.size; ++i) {
    c.max = max_or_second(load_up_to<A>(x + i * s.inner, n), c.max);
  }
  for (int64_t i = 0; i < s.size; ++i) {
    c.sum += exp(load_up_to<A>(x + i * s.inner, n) - c.max);
  }
  return c;
}

}  // namespace

void softmax_forward(const View& x, const View& y, int axis) {
  const AxisSplit s = split_at(x, axis);
  visit_floating(x.dtype, [&]<class T>(Type<T>) {
    using A = Accumulator<T>;
    const T* in = x.as<T>();
    T* out = y.as<T>();
    for_rows_or_columns<A>(
        s, out,
        [&](int64_t row, bool stream) { softmax_row<A>(in + row, out + row, s.size, stream); },
        [&](int64_t base, int64_t n) {
          const ColumnSums<A> c = column_sums<A>(in + base, s, n);
          const Vec<A> factor = Vec<A>(1) / c.sum;
          for (int64_t i = base; i < base + s.size * s.inner; i += s.inner) {
            store_up_to(exp(load_up_to<A>(in + i, n) - c.max) * factor, out + i, n);
          }
        });
  });
}

void softmax_backward(const View& dy, const View& y, const View& dx, int axis) {
  const AxisSplit s = split_at(y, axis);
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    using A = Accumulator<T>;
    const T *g = dy.as<T>(), *out = y.as<T>();
    T* in = dx.as<T>();
    for_rows_or_columns<A>(
        s, in,
        [&](int64_t row, bool stream) {
          const double dot = sum_row<A>(
              s.size, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
                return load_up_to<A>(g + row + i, n) * load_up_to<A>(out + row + i, n);
              });
          const Vec<A> d(static_cast<A>(dot));
          for_vectors<A>(
              s.size, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
                put((load_up_to<A>(g + row + i, n) - d) * load_up_to<A>(out + row + i, n),
                    in + row + i, n, stream);
              });
        },
        [&](int64_t base, int64_t n) {
          Vec<A> dot(0);
          const int64_t end = base + s.size * s.inner;
          for (int64_t i = base; i < end; i += s.inner) {
            dot = fma(load_up_to<A>(g + i, n), load_up_to<A>(out + i, n), dot);
          }
          for (int64_t i = base; i < end; i += s.inner) {
            store_up_to((load_up_to<A>(g + i, n) - dot) * load_up_to<A>(out + i, n), in + i, n);
          }
        });
  });
}

void log_softmax_forward(const View& x, const View& y, int axis) {
  const AxisSplit s = split_at(x, axis);
  visit_floating(x.dtype, [&]<class T>(Type<T>) {
    using A = Accumulator<T>;
    const T* in = x.as<T>();
    T* out = y.as<T>();
    for_rows_or_columns<A>(
        s, out,
        [&](int64_t row, bool stream) {
          const A max = max_row<A>(in + row, s.size);
          const double sum = sum_of_exponentials<A>(in + row, s.size, max);
          const Vec<A> m(max), log_sum(static_cast<A>(__builtin_log(sum)));
          for_vectors<A>(
              s.size, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
                put((load_up_to<A>(in + row + i, n) - m) - log_sum, out + row + i, n, stream);
              });
        },
        [&](int64_t base, int64_t n) {
          const ColumnSums<A> c = column_sums<A>(in + base, s, n);
          const Vec<A> log_sum = log(c.sum);
          for (int64_t i = base; i < base + s.size * s.inner; i += s.inner) {
            store_up_to((load_up_to<A>(in + i, n) - c.max) - log_sum, out + i, n);
          }
        });
  });
}

void log_softmax_backward(const View& dy, const View& y, const View& dx, int axis) {
  const AxisSplit s = split_at(y, axis);
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    using A = Accumulator<T>;
    const T *g = dy.as<T>(), *out = y.as<T>();
    T* in = dx.as<T>();
    for_rows_or_columns<A>(
        s, in,
        [&](int64_t row, bool stream) {
          const Vec<A> sum(static_cast<A>(sum_row<A>(
              s.size, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
                return load_up_to<A>(g + row + i, n);
              })));
          for_vectors<A>(
              s.size, [&](int64_t i, int64_t n) __attribute__((always_inline)) {
                put(load_up_to<A>(g + row + i, n) - exp(load_up_to<A>(out + row + i, n)) * sum,
                    in + row + i, n, stream);
              });
        },
        [&](int64_t base, int64_t n) {
          Vec<A> sum(0);
          const int64_t end = base + s.size * s.inner;
          for (int64_t i = base; i < end; i += s.inner) sum += load_up_to<A>(g + i, n);
          for (int64_t i = base; i < end; i += s.inner) {
            store_up_to(load_up_to<A>(g + i, n) - exp(load_up_to<A>(out + i, n)) * sum, in + i, n);
          }
        });
  });
}

}  // namespace wick::WICK_ISA
