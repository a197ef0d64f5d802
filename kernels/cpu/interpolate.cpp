#include "wick/kernels/interpolate.h"

#include "wick/kernels/cpu/channels_last.h"
#include "wick/kernels/interpolate_axis.h"

namespace wick::WICK_ISA {

namespace {

template <class T>
void forward(const View& x_view, const View& y_view, const Interpolate2dParams& params) {
  using V = Vec<Accumulator<T>>;
  const Images<const T> x(x_view);
  const Images<T> y(y_view);
  const ResizeAxis<Accumulator<T>> rows(x.h, y.h, params, 0), columns(x.w, y.w, params, 1);
  for_each_row(y.n, y.h, y.w * y.c * 2, [&](int64_t n, int64_t p) {
    const ResizeSource<Accumulator<T>> r = rows.source(p);
    for (int64_t q = 0; q < y.w; ++q) {
      const ResizeSource<Accumulator<T>> s = columns.source(q);
      for_each_vector<V>(y.c, [&](int64_t c, int64_t lanes) {
        const auto at = [&](int64_t i, int64_t j) {
          return load_lanes<V>(x.pixel(n, i, j) + c, lanes);
        };
        V value = at(r.first, s.first);
        if (params.linear) {
          const V across(s.weight), down(r.weight);
          const V upper = fma(at(r.first, s.second) - value, across, value);
          const V lower_left = at(r.second, s.first);
          const V lower = fma(at(r.second, s.second) - lower_left, across, lower_left);
          value = fma(lower - upper, down, upper);
        }
        store_lanes(value, y.pixel(n, p, q) + c, lanes);
      });
    }
  });
}

template <class T>
void backward(const View& dy_view, const View& dx_view, const Interpolate2dParams& params) {
  using V = Vec<Accumulator<T>>;
  const Images<const T> dy(dy_view);
  const Images<T> dx(dx_view);
  const ResizeAxis<Accumulator<T>> rows(dx.h, dy.h, params, 0), columns(dx.w, dy.w, params, 1);
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

}  // namespace

void interpolate2d_forward(const View& x, const View& y, const Interpolate2dParams& params) {
  visit_floating(x.dtype, [&]<class T>(Type<T>) { forward<T>(x, y, params); });
}
void interpolate2d_backward(const View& dy, const View& dx, const Interpolate2dParams& params) {
  visit_floating(dy.dtype, [&]<class T>(Type<T>) { backward<T>(dy, dx, params); });
}

}  // namespace wick::WICK_ISA
