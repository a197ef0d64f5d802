#include "wick/kernels/scan.h"

#include "wick/kernels/cuda/common/block_scan.h"
#include "wick/kernels/cuda/common/rows.h"

namespace wick::cuda {

namespace {

constexpr int kThreads = 256;

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

template <class T>
__device__ void turn_around(RowPack<T>& values) {
  WICK_UNROLL
  for (int k = 0; k < kPackSize<T> / 2; ++k) {
    const T v = values[k];
    values[k] = values[kPackSize<T> - 1 - k];
    values[kPackSize<T> - 1 - k] = v;
  }
}

/// Rows that are contiguous: a block each, whose threads take packs side by side.
template <class T, class Combine>
__global__ void __launch_bounds__(kThreads)
    scan_rows_kernel(const T* x, T* y, ScanShape shape, Combine combine, ScanType<T> identity) {
  using S = ScanType<T>;
  constexpr int kEach = kPackSize<T>;
  WICK_SHARED(S, last_of_warp, kThreads / kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t row = blockIdx.x; row < shape.outer; row += gridDim.x) {
    const T* const from = x + row * shape.n;
    T* const to = y + row * shape.n;
    // Packs begin where 16 bytes do, the first one maybe before the row.
    const auto shift = static_cast<int64_t>(reinterpret_cast<uintptr_t>(from) % 16 / sizeof(T));
    const int64_t packs = (shift + shape.n + kEach - 1) / kEach;
    S before = identity;
    for (int64_t tile = 0; tile < packs; tile += blockDim.x) {
      const int64_t pack = tile + threadIdx.x;
      const int64_t first = (shape.reverse ? packs - 1 - pack : pack) * kEach - shift;
      RowPack<T> values = load_in_row(from, shape.n, first, convert<T>(identity)).unpack();
      if (shape.reverse) turn_around<T>(values);
      S own[kEach];
      WICK_UNROLL
      for (int k = 0; k < kEach; ++k) {
        const S v = convert<S>(values[k]);
        own[k] = k == 0 ? v : combine(own[k - 1], v);
      }
      S total;
      const S through = block_inclusive_scan(own[kEach - 1], total, combine, identity);
      S start = __shfl_up_sync(kAllLanes, through, 1);
      // The first lane of a warp has nobody to ask. The scan's barriers keep the last tile's values
      // until they were read.
      if (lane == kWarp - 1) last_of_warp[warp] = through;
      __syncthreads();
      if (lane == 0) start = warp == 0 ? identity : last_of_warp[warp - 1];
      start = combine(before, start);
      WICK_UNROLL
      for (int k = 0; k < kEach; ++k) values[k] = convert<T>(combine(start, own[k]));
      if (shape.reverse) turn_around<T>(values);
      store_in_row(to, shape.n, first, values);
      before = combine(before, total);
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
      Grid grid = grid_of_rows(shape.outer, shape.n, kPackSize<T>);
      grid.threads.x = std::min(grid.threads.x, static_cast<unsigned>(kThreads));
      launch(name, y.device, grid, scan_rows_kernel<T, Combine>, x.as<const T>(), y.as<T>(), shape,
             combine, start);
    } else {
      launch(name, y.device, grid_for(y.device, shape.outer * shape.inner, 1, 128),
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
    launch("cumulative_product_backward", dx.device,
           grid_for(dx.device, shape.outer * shape.inner, 1, 128), product_gradient_kernel<T>,
           x.as<const T>(), dy.as<const T>(), dx.as<T>(), shape);
  });
}

}  // namespace wick::cuda
