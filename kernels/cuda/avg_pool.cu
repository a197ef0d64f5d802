#include "wick/kernels/pool.h"

#include "wick/kernels/cuda/channels_last.h"
#include "wick/kernels/pool_axis.h"

namespace wick::cuda {

namespace {

struct Windows {
  ImageSizes in, out;
  PoolAxis rows, columns;
  bool count_include_pad;
  int64_t divisor;

  Windows(const View& x, const View& y, const Pool2dParams& params)
      : in(x),
        out(y),
        rows(in.h, out.h, params, 0),
        columns(in.w, out.w, params, 1),
        count_include_pad(params.count_include_pad),
        divisor(params.divisor) {}

  template <class L>
  __device__ L scale(int64_t p, int64_t q) const {
    return L{1} / static_cast<L>(pool_divisor(rows, columns, p, q, count_include_pad, divisor));
  }
};

template <class T, int kVector>
__global__ void avg_pool2d_forward_kernel(const T* x, T* y, Windows w) {
  using L = Accumulator<T>;
  for (int64_t i = global_thread(); i < w.out.numel() / kVector; i += global_threads()) {
    const ImagePlace<kVector> at(w.out, i);
    const PoolRange r = w.rows.window(at.y), s = w.columns.window(at.x);
    Pack<L, kVector> sum = {};
    for (int64_t row = r.begin; row < r.end; ++row) {
      for (int64_t column = s.begin; column < s.end; ++column) {
        const Pack<L, kVector> value =
            load_lanes<T, kVector>(x + w.in.pixel(at.image, row, column) + at.channel);
        WICK_UNROLL
        for (int j = 0; j < kVector; ++j) sum[j] += value[j];
      }
    }
    const L scale = w.template scale<L>(at.y, at.x);
    WICK_UNROLL
    for (int j = 0; j < kVector; ++j) sum[j] *= scale;
    store_lanes<T, kVector>(y + w.out.pixel(at.image, at.y, at.x) + at.channel, sum);
  }
}

constexpr int kThreads = 256;

// For large windows: a block per window and tile of up to kWarp groups of channels, `columns` of
// them side by side; its lines of threads deal out the window's elements among them.
template <class T, int kVector>
__global__ void avg_pool2d_block_kernel(const T* x, T* y, Windows w, int64_t tiles, int columns) {
  using L = Accumulator<T>;
  WICK_SHARED(L, parts, kVector * kThreads);
  const int thread = static_cast<int>(threadIdx.x), lanes = kThreads / columns;
  const int column = thread % columns, lane = thread / columns;
  const int64_t window = blockIdx.x / tiles, first = blockIdx.x % tiles * columns * kVector;
  const int64_t q = window % w.out.w, p = window / w.out.w % w.out.h;
  const int64_t image = window / w.out.w / w.out.h, channel = first + column * kVector;
  const PoolRange r = w.rows.window(p), s = w.columns.window(q);
  Pack<L, kVector> sum = {};
  if (lane < lanes && channel < w.in.c) {
    for (int64_t i = lane; i < r.size() * s.size(); i += lanes) {
      const int64_t pixel = w.in.pixel(image, r.begin + i / s.size(), s.begin + i % s.size());
      const Pack<L, kVector> value = load_lanes<T, kVector>(x + pixel + channel);
      WICK_UNROLL
      for (int j = 0; j < kVector; ++j) sum[j] += value[j];
    }
  }
  WICK_UNROLL
  for (int j = 0; j < kVector; ++j) parts[j * kThreads + thread] = sum[j];
  __syncthreads();
  const int64_t own = first + thread % columns * kVector + thread / columns;
  if (thread >= kVector * columns || own >= w.in.c) return;
  const L* part = parts + thread / columns * kThreads + column;
  L total = 0;
  for (int other = 0; other < lanes; ++other) total += part[other * columns];
  y[window * w.out.c + own] = convert<T>(total * w.template scale<L>(p, q));
}

template <class T, int kVector>
__global__ void __launch_bounds__(kGridThreads)
    avg_pool2d_backward_kernel(const T* dy, T* dx, Windows w) {
  using L = Accumulator<T>;
  for (int64_t i = global_thread(); i < w.in.numel() / kVector; i += global_threads()) {
    const ImagePlace<kVector> at(w.in, i);
    const PoolRange p_range = w.rows.holders(at.y), q_range = w.columns.holders(at.x);
    Pack<L, kVector> sum = {};
    for (int64_t p = p_range.begin; p < p_range.end; ++p) {
      for (int64_t q = q_range.begin; q < q_range.end; ++q) {
        const L scale = w.template scale<L>(p, q);
        const Pack<L, kVector> g =
            load_lanes<T, kVector>(dy + w.out.pixel(at.image, p, q) + at.channel);
        WICK_UNROLL
        for (int j = 0; j < kVector; ++j) sum[j] = fma(g[j], scale, sum[j]);
      }
    }
    store_lanes<T, kVector>(dx + w.in.pixel(at.image, at.y, at.x) + at.channel, sum);
  }
}

// Elements that most windows hold.
int64_t window_size(const Windows& w) {
  if (!w.rows.adaptive) return w.rows.kernel * w.columns.kernel;
  return (w.in.h + w.out.h - 1) / w.out.h * ((w.in.w + w.out.w - 1) / w.out.w);
}

}  // namespace

void avg_pool2d_forward(const View& x, const View& y, const Pool2dParams& params) {
  constexpr int64_t kLargeWindow = 32;
  const Windows w(x, y, params);
  visit_image_vectors({&x, &y}, [&]<class T, int kVector>() {
    const int64_t groups = w.in.c / kVector, tiles = (groups + kWarp - 1) / kWarp;
    const int64_t blocks = w.out.n * w.out.h * w.out.w * tiles;
    if (window_size(w) < kLargeWindow || blocks > INT32_MAX) {
      launch("avg_pool2d", y.device, grid_for(y.device, w.out.numel(), kVector),
             avg_pool2d_forward_kernel<T, kVector>, x.as<T>(), y.as<T>(), w);
      return;
    }
    const int columns = static_cast<int>((groups + tiles - 1) / tiles);
    const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
    launch("avg_pool2d", y.device, grid, avg_pool2d_block_kernel<T, kVector>, x.as<T>(), y.as<T>(),
           w, tiles, columns);
  });
}

void avg_pool2d_backward(const View& dy, const View& dx, const Pool2dParams& params) {
  const Windows w(dx, dy, params);
  visit_image_vectors({&dy, &dx}, [&]<class T, int kVector>() {
    launch("avg_pool2d_backward", dx.device, grid_for(dx.device, w.in.numel(), kVector),
           avg_pool2d_backward_kernel<T, kVector>, dy.as<T>(), dx.as<T>(), w);
  });
}

}  // namespace wick::cuda
