#include "wick/kernels/scan.h"

#include "wick/kernels/cuda/common/block_scan.h"
#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/launch.h"

namespace wick::cuda {

namespace {

constexpr int kThreads = 256, kEach = 4;  // a block scans kThreads * kEach elements at a time

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

struct Multiply {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a * b;
  }
};

/// Contiguous [outer, n, inner].
struct ScanShape {
  int64_t outer, n, inner;
  bool reverse;
};

/// Rows that are contiguous: a block each.
template <class T, class Combine>
__global__ void __launch_bounds__(kThreads)
    scan_rows_kernel(const T* x, T* y, ScanShape shape, Combine combine, ScanType<T> identity) {
  using S = ScanType<T>;
  for (int64_t row = blockIdx.x; row < shape.outer; row += gridDim.x) {
    S before = identity;
    for (int64_t tile = 0; tile < shape.n; tile += kThreads * kEach) {
      const int64_t first = tile + static_cast<int>(threadIdx.x) * kEach;
      const auto at = [&](int64_t i) {
        return row * shape.n + (shape.reverse ? shape.n - 1 - i : i);
      };
      S own[kEach];
      for (int k = 0; k < kEach; ++k) {
        const S v = first + k < shape.n ? convert<S>(x[at(first + k)]) : identity;
        own[k] = k == 0 ? v : combine(own[k - 1], v);
      }
      S total;
      const S through = block_inclusive_scan(own[kEach - 1], total, combine, identity);
      S start = __shfl_up_sync(kAllLanes, through, 1);
      // The first lane of a warp has nobody to ask.
      WICK_SHARED(S, last_of_warp, kThreads / kWarp);
      const int lane = static_cast<int>(threadIdx.x) % kWarp;
      const int warp = static_cast<int>(threadIdx.x) / kWarp;
      if (lane == kWarp - 1) last_of_warp[warp] = through;
      __syncthreads();
      if (lane == 0) start = warp == 0 ? identity : last_of_warp[warp - 1];
      start = combine(before, start);
      for (int k = 0; k < kEach; ++k) {
        if (first + k < shape.n) y[at(first + k)] = convert<T>(combine(start, own[k]));
      }
      before = combine(before, total);
      __syncthreads();  // `last_of_warp` may be written again
    }
  }
}

/// Calls body(first element) for each of the columns that are this thread's.
template <class Body>
__device__ void for_columns(const ScanShape& shape, const Body& body) {
  for (int64_t i = global_thread(); i < shape.outer * shape.inner; i += global_threads()) {
    body(i / shape.inner * shape.n * shape.inner + i % shape.inner);
  }
}

/// Columns: a thread each, neighbours on neighbours.
template <class T, class Combine>
__global__ void scan_columns_kernel(const T* x, T* y, ScanShape shape, Combine combine,
                                    ScanType<T> identity) {
  for_columns(shape, [&](int64_t first) {
    const int64_t step = shape.reverse ? -shape.inner : shape.inner;
    int64_t at = first + (shape.reverse ? (shape.n - 1) * shape.inner : 0);
    ScanType<T> running = identity;
    for (int64_t k = 0; k < shape.n; ++k, at += step) {
      running = combine(running, convert<ScanType<T>>(x[at]));
      y[at] = convert<T>(running);
    }
  });
}

/// A thread does one column, as the CPU does.
template <class T>
__global__ void product_gradient_kernel(const T* x, const T* dy, T* dx, ScanShape shape) {
  for_columns(shape, [&](int64_t first) {
    const auto at = [&](int64_t k) { return first + k * shape.inner; };
    int64_t zero = 0;  // where the first one is
    double product = 1;
    while (zero < shape.n) {
      const double v = convert<double>(x[at(zero)]);
      if (v == 0) break;
      product *= v;
      ++zero;
    }
    // Every product that keeps the zero vanishes: only the elements up to it have a gradient.
    double at_zero = 0, without = product;
    for (int64_t j = zero; j < shape.n; ++j) {
      if (j > zero) without *= convert<double>(x[at(j)]);
      at_zero += convert<double>(dy[at(j)]) * without;
      dx[at(j)] = convert<T>(0.0);
    }
    if (zero < shape.n) dx[at(zero)] = convert<T>(at_zero);
    double sum = 0;
    for (int64_t k = zero - 1; k >= 0; --k) {
      const double v = convert<double>(x[at(k)]);
      sum += convert<double>(dy[at(k)]) * product;
      product /= v;
      dx[at(k)] = convert<T>(sum / v);
    }
  });
}

ScanShape shape_of(const View& x, bool reverse) {
  return {x.shape[0], x.shape[1], x.shape[2], reverse};
}

template <class Combine>
void scan(const char* name, const View& x, const View& y, bool reverse, const Combine& combine,
          int identity) {
  const ScanShape shape = shape_of(x, reverse);
  if (x.numel() == 0) return;
  const auto run = [&]<class T>(Type<T>) {
    const auto start = static_cast<ScanType<T>>(identity);
    if (shape.inner == 1) {
      const unsigned blocks = static_cast<unsigned>(std::min<int64_t>(shape.outer, 1 << 20));
      launch(name, y.device, Grid{dim3(blocks), dim3(kThreads)}, scan_rows_kernel<T, Combine>,
             x.as<const T>(), y.as<T>(), shape, combine, start);
    } else {
      launch(name, y.device, grid_for(shape.outer * shape.inner, 1, 128),
             scan_columns_kernel<T, Combine>, x.as<const T>(), y.as<T>(), shape, combine, start);
    }
  };
  if (x.dtype == Dtype::kInt64) return run(Type<int64_t>{});
  visit_floating(x.dtype, run);
}

}  // namespace

void cumulative_sum(const View& x, const View& y, bool reverse) {
  scan("cumulative_sum", x, y, reverse, Add{}, 0);
}

void cumulative_product(const View& x, const View& y) {
  scan("cumulative_product", x, y, false, Multiply{}, 1);
}

void cumulative_product_backward(const View& x, const View& dy, const View& dx) {
  const ScanShape shape = shape_of(x, false);
  if (x.numel() == 0) return;
  visit_floating(x.dtype, [&]<class T>(Type<T>) {
    launch("cumulative_product_backward", dx.device, grid_for(shape.outer * shape.inner, 1, 128),
           product_gradient_kernel<T>, x.as<const T>(), dy.as<const T>(), dx.as<T>(), shape);
  });
}

}  // namespace wick::cuda
