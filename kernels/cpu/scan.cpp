#include "wick/kernels/scan.h"

#include "wick/core/base/parallel.h"

namespace wick::WICK_ISA {

namespace {

template <class T>
struct ScanOf {
  using type = double;
};
template <>
struct ScanOf<int64_t> {
  using type = int64_t;
};
template <class T>
using ScanType = typename ScanOf<T>::type;

template <class Visit>
WICK_INLINE void visit_scanned(Dtype dtype, Visit&& visit) {
  if (dtype == Dtype::kInt64) return visit(Type<int64_t>{});
  visit_floating(dtype, visit);
}

template <class T>
WICK_INLINE T rounded(ScanType<T> value) {
  if constexpr (sizeof(T) == 8)
    return value;
  else
    return T(static_cast<float>(value));
}

constexpr int64_t kScanColumns = 64;  // columns scanned side by side

// Calls body(first element, columns) for each block of columns of [outer, n, inner].
template <class Body>
WICK_INLINE void for_each_block(const Shape& shape, const Body& body) {
  const int64_t n = shape[1], inner = shape[2];
  if (n == 0) return;
  const int64_t blocks = (inner + kScanColumns - 1) / kScanColumns;
  const int64_t work = n * (inner < kScanColumns ? inner : kScanColumns);
  parallel_for(shape[0] * blocks, 1 + 32768 / (work + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % blocks * kScanColumns;
      const int64_t left = inner - column;
      body(i / blocks * n * inner + column, left < kScanColumns ? left : kScanColumns);
    }
  });
}

// Running values of `columns` columns, side by side.
template <class T, class Combine>
WICK_INLINE void scan_block(const T* x, T* y, int64_t n, int64_t step, int64_t columns,
                            ScanType<T> start, const Combine& combine) {
  alignas(64) ScanType<T> running[kScanColumns];
  for (int64_t j = 0; j < columns; ++j) running[j] = start;
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t j = 0; j < columns; ++j) {
      running[j] = combine(running[j], static_cast<ScanType<T>>(x[j]));
      y[j] = rounded<T>(running[j]);
    }
    x += step;
    y += step;
  }
}

template <class T, class Combine>
WICK_INLINE void scan(const View& x, const View& y, bool reverse, ScanType<T> start,
                      const Combine& combine) {
  const int64_t n = x.shape[1], inner = x.shape[2];
  for_each_block(x.shape, [&](int64_t first, int64_t columns) {
    const int64_t begin = first + (reverse ? (n - 1) * inner : 0);
    const T* from = x.as<const T>() + begin;
    T* to = y.as<T>() + begin;
    const int64_t step = reverse ? -inner : inner;
    if (columns == 1) {  // kept in a register
      scan_block(from, to, n, step, 1, start, combine);
    } else {
      scan_block(from, to, n, step, columns, start, combine);
    }
  });
}

// One column: with the first zero of x at `zero`, every product that keeps it vanishes, so only
// the elements up to it have a gradient.
template <class T>
WICK_INLINE void product_gradient(const T* x, const T* dy, T* dx, int64_t n, int64_t step) {
  int64_t zero = 0;
  double product = 1;
  while (zero < n && static_cast<double>(x[zero * step]) != 0) {
    product *= static_cast<double>(x[zero++ * step]);
  }
  double at_zero = 0, without = product;
  for (int64_t j = zero; j < n; ++j) {
    if (j > zero) without *= static_cast<double>(x[j * step]);
    at_zero += static_cast<double>(dy[j * step]) * without;
    dx[j * step] = T(0.0f);
  }
  if (zero < n) dx[zero * step] = T(static_cast<Accumulator<T>>(at_zero));
  double sum = 0;
  for (int64_t k = zero - 1; k >= 0; --k) {
    sum += static_cast<double>(dy[k * step]) * product;
    product /= static_cast<double>(x[k * step]);
    dx[k * step] = T(static_cast<Accumulator<T>>(sum / static_cast<double>(x[k * step])));
  }
}

}  // namespace

void cumulative_sum(const View& x, const View& y, bool reverse) {
  visit_scanned(x.dtype, [&]<class T>(Type<T>) {
    scan<T>(x, y, reverse, 0, [](ScanType<T> a, ScanType<T> b) { return a + b; });
  });
}

void cumulative_product(const View& x, const View& y) {
  visit_scanned(x.dtype, [&]<class T>(Type<T>) {
    scan<T>(x, y, false, 1, [](ScanType<T> a, ScanType<T> b) { return a * b; });
  });
}

void cumulative_product_backward(const View& x, const View& dy, const View& dx) {
  visit_floating(x.dtype, [&]<class T>(Type<T>) {
    for_each_block(x.shape, [&](int64_t first, int64_t columns) {
      for (int64_t j = first; j < first + columns; ++j) {
        product_gradient(x.as<const T>() + j, dy.as<const T>() + j, dx.as<T>() + j, x.shape[1],
                         x.shape[2]);
      }
    });
  });
}

}  // namespace wick::WICK_ISA
