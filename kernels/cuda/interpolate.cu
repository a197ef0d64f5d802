#include "wick/kernels/interpolate.h"

#include "wick/kernels/cuda/channels_last.h"
#include "wick/kernels/interpolate_axis.h"

namespace wick::cuda {

namespace {

template <class L, ResizeRule kRule>
struct Resize {
  using Axis = ResizeAxis<L, kRule>;
  using Source = typename Axis::Source;
  static constexpr int kTaps = Axis::kTaps;
  ImageSizes in, out;
  Axis rows, columns;

  Resize(const View& x, const View& y, const Interpolate2dParams& params)
      : in(x), out(y), rows(in.h, out.h, params, 0), columns(in.w, out.w, params, 1) {}
};

template <class T, int kVector, class R>
__global__ void interpolate2d_forward_kernel(const T* x, T* y, R resize) {
  using L = Accumulator<T>;
  const ImageSizes& in = resize.in;
  for (int64_t i = global_thread(); i < resize.out.numel() / kVector; i += global_threads()) {
    const ImagePlace<kVector> at(resize.out, i);
    const typename R::Source r = resize.rows.source(at.y), s = resize.columns.source(at.x);
    Pack<L, kVector> sum = {};
    WICK_UNROLL
    for (int k = 0; k < R::kTaps; ++k) {
      WICK_UNROLL
      for (int l = 0; l < R::kTaps; ++l) {
        const L weight = r.weight[k] * s.weight[l];
        if (weight == 0) continue;  // what is not part of it is not looked at
        const Pack<L, kVector> value =
            load_lanes<T, kVector>(x + in.pixel(at.image, r.index[k], s.index[l]) + at.channel);
        WICK_UNROLL
        for (int j = 0; j < kVector; ++j) {
          sum[j] = R::kTaps == 1 ? value[j] : fma(value[j], weight, sum[j]);
        }
      }
    }
    store_lanes<T, kVector>(y + resize.out.pixel(at.image, at.y, at.x) + at.channel, sum);
  }
}

template <class T, int kVector, class R>
__global__ void __launch_bounds__(kGridThreads)
    interpolate2d_backward_kernel(const T* dy, T* dx, R resize) {
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

// Calls `run.operator()<kRule>()`.
template <class Run>
void visit_rule(ResizeRule rule, const Run& run) {
  switch (rule) {
    case ResizeRule::kNearest: return run.template operator()<ResizeRule::kNearest>();
    case ResizeRule::kNearestExact: return run.template operator()<ResizeRule::kNearestExact>();
    case ResizeRule::kLinear: return run.template operator()<ResizeRule::kLinear>();
    case ResizeRule::kCubic: return run.template operator()<ResizeRule::kCubic>();
  }
}

}  // namespace

void interpolate2d_forward(const View& x, const View& y, const Interpolate2dParams& params) {
  visit_image_vectors({&x, &y}, [&]<class T, int kVector>() {
    visit_rule(params.rule, [&]<ResizeRule kRule>() {
      using R = Resize<Accumulator<T>, kRule>;
      launch("interpolate", y.device, grid_for(y.device, y.numel(), kVector),
             interpolate2d_forward_kernel<T, kVector, R>, x.as<T>(), y.as<T>(), R(x, y, params));
    });
  });
}

void interpolate2d_backward(const View& dy, const View& dx, const Interpolate2dParams& params) {
  visit_image_vectors({&dy, &dx}, [&]<class T, int kVector>() {
    visit_rule(params.rule, [&]<ResizeRule kRule>() {
      using R = Resize<Accumulator<T>, kRule>;
      launch("interpolate_backward", dx.device, grid_for(dx.device, dx.numel(), kVector),
             interpolate2d_backward_kernel<T, kVector, R>, dy.as<T>(), dx.as<T>(),
             R(dx, dy, params));
    });
  });
}

}  // namespace wick::cuda
