#include "wick/kernels/interpolate.h"

#include "wick/kernels/cpu/images.h"

namespace wick::WICK_ISA {

namespace {

/// The one or two elements that an element of the result is made of.
template <class E>
struct Source {
  int64_t first, second;
  E weight;  // of the second
};

/// One axis of `in` elements resized to `out`; positions between elements are held as E.
template <class E>
struct Axis {
  int64_t in, out;
  E scale;
  float nearest_scale;  // in float for every dtype, as PyTorch rounds it
  bool linear, align_corners;

  WICK_INLINE Axis(int64_t in_size, int64_t out_size, const Interpolate2dParams& p, int axis)
      : in(in_size),
        out(out_size),
        scale(static_cast<E>(p.scale[axis])),
        nearest_scale(static_cast<float>(p.scale[axis])),
        linear(p.linear),
        align_corners(p.align_corners) {}

  WICK_INLINE Source<E> source(int64_t o) const {
    if (!linear) {
      const auto floor = static_cast<int64_t>(static_cast<float>(o) * nearest_scale);
      const int64_t nearest = floor < in - 1 ? floor : in - 1;
      return {nearest, nearest, 0};
    }
    const E index = static_cast<E>(o), half = E(0.5);
    E position = align_corners ? index * scale : (index + half) * scale - half;
    if (position < 0) position = 0;
    const auto floor = static_cast<int64_t>(position);
    const int64_t first = floor < in - 1 ? floor : in - 1;
    const int64_t second = first < in - 1 ? first + 1 : first;
    const E weight = position - static_cast<E>(first);
    return {first, second, weight < 1 ? weight : 1};
  }
  // By what factor element `i` is part of element `o` of the result.
  WICK_INLINE E factor(int64_t i, int64_t o) const {
    const Source<E> s = source(o);
    return (s.first == i ? 1 - s.weight : 0) + (s.second == i ? s.weight : 0);
  }
  // Bounds [begin, end) of the elements of the result that element `i` may be part of. The sources
  // never go back as `o` grows.
  WICK_INLINE int64_t begin(int64_t i) const {
    int64_t low = 0, high = out;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (source(middle).second < i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  WICK_INLINE int64_t end(int64_t i) const {
    int64_t low = 0, high = out;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (source(middle).first <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

template <class T>
void forward(const View& x_view, const View& y_view, const Interpolate2dParams& params) {
  using V = Vec<Accumulator<T>>;
  const Images<const T> x(x_view);
  const Images<T> y(y_view);
  const Axis<Accumulator<T>> rows(x.h, y.h, params, 0), columns(x.w, y.w, params, 1);
  for_each_row(y.n, y.h, y.w * y.c * 2, [&](int64_t n, int64_t p) {
    const Source<Accumulator<T>> r = rows.source(p);
    for (int64_t q = 0; q < y.w; ++q) {
      const Source<Accumulator<T>> s = columns.source(q);
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
  const Axis<Accumulator<T>> rows(dx.h, dy.h, params, 0), columns(dx.w, dy.w, params, 1);
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
