#include "wick/kernels/pool.h"

#include "wick/kernels/cuda/channels_last.h"
#include "wick/kernels/pool_axis.h"

namespace wick::cuda {

namespace {

template <class T, class Tap, int kVector>
__global__ void max_pool2d_forward_kernel(const T* x, T* y, Tap* taps, ImageSizes in,
                                          ImageSizes out, PoolAxis rows, PoolAxis columns) {
  using L = Accumulator<T>;
  for (int64_t i = global_thread(); i < out.numel() / kVector; i += global_threads()) {
    const ImagePlace<kVector> at(out, i);
    const PoolRange r = rows.window(at.y), s = columns.window(at.x);
    const int64_t first_column = columns.tap(at.x, s.begin);
    int64_t row_tap = rows.tap(at.y, r.begin) * columns.kernel;
    Pack<L, kVector> best;
    Pack<Tap, kVector> best_tap;
    WICK_UNROLL
    for (int j = 0; j < kVector; ++j) {
      best[j] = -static_cast<L>(__builtin_inff());
      best_tap[j] = static_cast<Tap>(row_tap + first_column);
    }
    for (int64_t row = r.begin; row < r.end; row += rows.dilation) {
      int64_t next_tap = row_tap + first_column;
      for (int64_t column = s.begin; column < s.end; column += columns.dilation) {
        const Pack<L, kVector> value =
            load_lanes<T, kVector>(x + in.pixel(at.image, row, column) + at.channel);
        const Tap tap = static_cast<Tap>(next_tap++);
        WICK_UNROLL
        for (int j = 0; j < kVector; ++j) {
          if (!(value[j] > best[j]) && value[j] == value[j]) continue;
          best[j] = value[j];
          best_tap[j] = tap;
        }
      }
      row_tap += columns.kernel;
    }
    const int64_t to = out.pixel(at.image, at.y, at.x) + at.channel;
    store_lanes<T, kVector>(y + to, best);
    store_pack(taps + to, best_tap);
  }
}

template <class T, class Tap, int kVector>
__global__ void max_pool2d_backward_kernel(const T* dy, const Tap* taps, T* dx, ImageSizes in,
                                           ImageSizes out, PoolAxis rows, PoolAxis columns) {
  using L = Accumulator<T>;
  for (int64_t i = global_thread(); i < in.numel() / kVector; i += global_threads()) {
    const ImagePlace<kVector> at(in, i);
    const PoolRange p_range = rows.holders(at.y), q_range = columns.holders(at.x);
    Pack<L, kVector> sum = {};
    for (int64_t p = p_range.begin; p < p_range.end; ++p) {
      if (!rows.holds(p, at.y)) continue;
      for (int64_t q = q_range.begin; q < q_range.end; ++q) {
        if (!columns.holds(q, at.x)) continue;
        const Tap tap = static_cast<Tap>(rows.tap(p, at.y) * columns.kernel + columns.tap(q, at.x));
        const int64_t from = out.pixel(at.image, p, q) + at.channel;
        const Pack<Tap, kVector> chosen = load_pack<kVector>(taps + from);
        const Pack<L, kVector> g = load_lanes<T, kVector>(dy + from);
        WICK_UNROLL
        for (int j = 0; j < kVector; ++j) {
          if (chosen[j] == tap) sum[j] += g[j];
        }
      }
    }
    store_lanes<T, kVector>(dx + in.pixel(at.image, at.y, at.x) + at.channel, sum);
  }
}

template <class T, class Tap>
__global__ void max_pool2d_gather_kernel(const T* g, const Tap* taps, T* y, ImageSizes in,
                                         ImageSizes out, PoolAxis rows, PoolAxis columns) {
  for (int64_t i = global_thread(); i < out.numel(); i += global_threads()) {
    const ImagePlace<1> at(out, i);
    const int64_t tap = static_cast<int64_t>(taps[i]);
    const int64_t row = rows.start(at.y) + tap / columns.kernel * rows.dilation;
    const int64_t column = columns.start(at.x) + tap % columns.kernel * columns.dilation;
    y[i] = g[in.pixel(at.image, row, column) + at.channel];
  }
}

template <class Tap>
__global__ void max_pool2d_indices_kernel(const Tap* taps, int64_t* indices, ImageSizes in,
                                          ImageSizes out, PoolAxis rows, PoolAxis columns) {
  for (int64_t i = global_thread(); i < out.numel(); i += global_threads()) {
    const ImagePlace<1> at(out, i);
    const int64_t tap = static_cast<int64_t>(taps[i]);
    const int64_t row = rows.start(at.y) + tap / columns.kernel * rows.dilation;
    const int64_t column = columns.start(at.x) + tap % columns.kernel * columns.dilation;
    indices[i] = row * in.w + column;
  }
}

// Calls `run(Type<Tap>)` with the type of the taps.
template <class Run>
void visit_taps(const View& taps, const Run& run) {
  if (taps.dtype == Dtype::kUint8) return run(Type<uint8_t>{});
  run(Type<int32_t>{});
}

}  // namespace

void max_pool2d_forward(const View& x, const View& y, const View& taps,
                        const Pool2dParams& params) {
  const ImageSizes in(x), out(y);
  const PoolAxis rows(in.h, out.h, params, 0), columns(in.w, out.w, params, 1);
  visit_image_vectors({&x, &y, &taps}, [&]<class T, int kVector>() {
    visit_taps(taps, [&]<class Tap>(Type<Tap>) {
      launch("max_pool2d", y.device, grid_for(y.device, out.numel(), kVector),
             max_pool2d_forward_kernel<T, Tap, kVector>, x.as<T>(), y.as<T>(), taps.as<Tap>(), in,
             out, rows, columns);
    });
  });
}

void max_pool2d_backward(const View& dy, const View& taps, const View& dx,
                         const Pool2dParams& params) {
  const ImageSizes in(dx), out(dy);
  const PoolAxis rows(in.h, out.h, params, 0), columns(in.w, out.w, params, 1);
  visit_image_vectors({&dy, &dx, &taps}, [&]<class T, int kVector>() {
    visit_taps(taps, [&]<class Tap>(Type<Tap>) {
      launch("max_pool2d_backward", dx.device, grid_for(dx.device, in.numel(), kVector),
             max_pool2d_backward_kernel<T, Tap, kVector>, dy.as<T>(), taps.as<Tap>(), dx.as<T>(),
             in, out, rows, columns);
    });
  });
}

void max_pool2d_gather(const View& g, const View& taps, const View& y, const Pool2dParams& params) {
  const ImageSizes in(g), out(y);
  const PoolAxis rows(in.h, out.h, params, 0), columns(in.w, out.w, params, 1);
  visit_floating(g.dtype, [&]<class T>(Type<T>) {
    visit_taps(taps, [&]<class Tap>(Type<Tap>) {
      launch("max_pool2d_gather", y.device, grid_for(y.device, out.numel()),
             max_pool2d_gather_kernel<T, Tap>, g.as<T>(), taps.as<Tap>(), y.as<T>(), in, out, rows,
             columns);
    });
  });
}

void max_pool2d_indices(const View& x, const View& taps, const View& indices,
                        const Pool2dParams& params) {
  const ImageSizes in(x), out(taps);
  const PoolAxis rows(in.h, out.h, params, 0), columns(in.w, out.w, params, 1);
  visit_taps(taps, [&]<class Tap>(Type<Tap>) {
    launch("max_pool2d_indices", x.device, grid_for(x.device, out.numel()),
           max_pool2d_indices_kernel<Tap>, taps.as<Tap>(), indices.as<int64_t>(), in, out, rows,
           columns);
  });
}

}  // namespace wick::cuda
