#include "wick/kernels/interpolate.h"

#include "wick/kernels/cuda/channels_last.h"
#include "wick/kernels/interpolate_axis.h"

namespace wick::cuda {

namespace {

template <class L>
struct Resize {
  ImageSizes in, out;
  ResizeAxis<L> rows, columns;
  bool linear;

  Resize(const View& x, const View& y, const Interpolate2dParams& params)
      : in(x),
        out(y),
        rows(in.h, out.h, params, 0),
        columns(in.w, out.w, params, 1),
        linear(params.linear) {}
};

template <class T, int kVector>
__global__ void interpolate2d_forward_kernel(const T* x, T* y, Resize<Accumulator<T>> resize) {
  using L = Accumulator<T>;
  using Lanes = Pack<L, kVector>;
  const ImageSizes& in = resize.in;
  for (int64_t i = global_thread(); i < resize.out.numel() / kVector; i += global_threads()) {
    const ImagePlace<kVector> at(resize.out, i);
    const ResizeSource<L> r = resize.rows.source(at.y), s = resize.columns.source(at.x);
    const auto load = [&](int64_t row, int64_t column) {
      return load_lanes<T, kVector>(x + in.pixel(at.image, row, column) + at.channel);
    };
    Lanes value = load(r.first, s.first);
    if (resize.linear) {
      const Lanes upper_right = load(r.first, s.second);
      const Lanes lower_left = load(r.second, s.first), lower_right = load(r.second, s.second);
      WICK_UNROLL
      for (int j = 0; j < kVector; ++j) {
        const L upper = fma(upper_right[j] - value[j], s.weight, value[j]);
        const L lower = fma(lower_right[j] - lower_left[j], s.weight, lower_left[j]);
        value[j] = fma(lower - upper, r.weight, upper);
      }
    }
    store_lanes<T, kVector>(y + resize.out.pixel(at.image, at.y, at.x) + at.channel, value);
  }
}

template <class T, int kVector>
__global__ void interpolate2d_backward_kernel(const T* dy, T* dx, Resize<Accumulator<T>> resize) {
  using L = Accumulator<T>;
  for (int64_t i = global_thread(); i < resize.in.numel() / kVector; i += global_threads()) {
    const ImagePlace<kVector> at(resize.in, i);
    const int64_t p_end = resize.rows.end(at.y), q_begin = resize.columns.begin(at.x);
    const int64_t q_end = resize.columns.end(at.x);
    Pack<L, kVector> sum = {};
    for (int64_t p = resize.rows.begin(at.y); p < p_end; ++p) {
      const L down = resize.rows.factor(at.y, p);
      for (int64_t q = q_begin; q < q_end; ++q) {
        const L factor = down * resize.columns.factor(at.x, q);
        const Pack<L, kVector> g =
            load_lanes<T, kVector>(dy + resize.out.pixel(at.image, p, q) + at.channel);
        WICK_UNROLL
        for (int j = 0; j < kVector; ++j) sum[j] = fma(g[j], factor, sum[j]);
      }
    }
    store_lanes<T, kVector>(dx + resize.in.pixel(at.image, at.y, at.x) + at.channel, sum);
  }
}

}  // namespace

void interpolate2d_forward(const View& x, const View& y, const Interpolate2dParams& params) {
  visit_image_vectors({&x, &y}, [&]<class T, int kVector>() {
    launch("interpolate", y.device, grid_for(y.device, y.numel(), kVector),
           interpolate2d_forward_kernel<T, kVector>, x.as<T>(), y.as<T>(),
           Resize<Accumulator<T>>(x, y, params));
  });
}

void interpolate2d_backward(const View& dy, const View& dx, const Interpolate2dParams& params) {
  visit_image_vectors({&dy, &dx}, [&]<class T, int kVector>() {
    launch("interpolate_backward", dx.device, grid_for(dx.device, dx.numel(), kVector),
           interpolate2d_backward_kernel<T, kVector>, dy.as<T>(), dx.as<T>(),
           Resize<Accumulator<T>>(dx, dy, params));
  });
}

}  // namespace wick::cuda
