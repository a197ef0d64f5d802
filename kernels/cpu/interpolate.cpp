#include "wick/kernels/interpolate.h"

#include "wick/kernels/cpu/channels_last.h"
#include "wick/kernels/interpolate_axis.h"

namespace wick::WICK_ISA {

namespace {

template <class T, ResizeRule kRule>
void forward(const View& x_view, const View& y_view, const Interpolate2dParams& params) {
  using V = Vec<Accumulator<T>>;
  using Axis = ResizeAxis<Accumulator<T>, kRule>;
  const Images<const T> x(x_view);
  const Images<T> y(y_view);
  const Axis rows(x.h, y.h, params, 0), columns(x.w, y.w, params, 1);
  for_each_row(y.n, y.h, y.w * y.c * Axis::kTaps * Axis::kTaps, [&](int64_t n, int64_t p) {
    const typename Axis::Source r = rows.source(p);
    const T* row[Axis::kTaps];
    for (int k = 0; k < Axis::kTaps; ++k) row[k] = x.pixel(n, r.index[k], 0);
    for (int64_t q = 0; q < y.w; ++q) {
      const typename Axis::Source s = columns.source(q);
      int64_t offset[Axis::kTaps];
      for (int l = 0; l < Axis::kTaps; ++l) offset[l] = s.index[l] * x.c;
      T* const to = y.pixel(n, p, q);
      for_each_vector<V>(y.c, [&](int64_t c, int64_t lanes) {
        if constexpr (Axis::kTaps == 1) {
          store_lanes(load_lanes<V>(row[0] + offset[0] + c, lanes), to + c, lanes);
          return;
        }
        V sum(0);
        for (int k = 0; k < Axis::kTaps; ++k) {
          if (r.weight[k] == 0) continue;  // what is not part of it is not looked at
          V line(0);
          for (int l = 0; l < Axis::kTaps; ++l) {
            if (s.weight[l] == 0) continue;
            line = fma(load_lanes<V>(row[k] + offset[l] + c, lanes), V(s.weight[l]), line);
          }
          sum = fma(line, V(r.weight[k]), sum);
        }
        store_lanes(sum, to + c, lanes);
      });
    }
  });
}

template <class T, ResizeRule kRule>
void backward(const View& dy_view, const View& dx_view, const Interpolate2dParams& params) {
  using V = Vec<Accumulator<T>>;
  using Axis = ResizeAxis<Accumulator<T>, kRule>;
  const Images<const T> dy(dy_view);
  const Images<T> dx(dx_view);
  const Axis rows(dx.h, dy.h, params, 0), columns(dx.w, dy.w, params, 1);
  for_each_row(dx.n, dx.h, dy.w * dx.c * (dy.h / dx.h + 1), [&](int64_t n, int64_t i) {
    const int64_t p_begin = rows.begin(i), p_end = rows.end(i);
    for (int64_t j = 0; j < dx.w; ++j) {
      const int64_t q_begin = columns.begin(j), q_end = columns.end(j);
      for_each_vector<V>(dx.c, [&](int64_t c, int64_t lanes) {
        V sum(0);
        for (int64_t p = p_begin; p < p_end; ++p) {
          const Accumulator<T> down = rows.factor(i, p);
          for (int64_t q = q_begin; q < q_end; ++q) {
            const V factor(down * columns.factor(j, q));
            sum = fma(load_lanes<V>(dy.pixel(n, p, q) + c, lanes), factor, sum);
          }
        }
        store_lanes(sum, dx.pixel(n, i, j) + c, lanes);
      });
    }
  });
}

// Calls `run(Type<T>, Rule<kRule>)` with the elements' type and the rule.
template <ResizeRule kRule>
struct Rule {};
template <class Run>
WICK_INLINE void visit(Dtype dtype, ResizeRule rule, const Run& run) {
  visit_floating(dtype, [&](auto type) {
    switch (rule) {
      case ResizeRule::kNearest: return run(type, Rule<ResizeRule::kNearest>{});
      case ResizeRule::kNearestExact: return run(type, Rule<ResizeRule::kNearestExact>{});
      case ResizeRule::kLinear: return run(type, Rule<ResizeRule::kLinear>{});
      case ResizeRule::kCubic: return run(type, Rule<ResizeRule::kCubic>{});
    }
  });
}

}  // namespace

void interpolate2d_forward(const View& x, const View& y, const Interpolate2dParams& params) {
  visit(x.dtype, params.rule,
        [&]<class T, ResizeRule kRule>(Type<T>, Rule<kRule>) { forward<T, kRule>(x, y, params); });
}
void interpolate2d_backward(const View& dy, const View& dx, const Interpolate2dParams& params) {
  visit(dy.dtype, params.rule, [&]<class T, ResizeRule kRule>(Type<T>, Rule<kRule>) {
    backward<T, kRule>(dy, dx, params);
  });
}

}  // namespace wick::WICK_ISA
