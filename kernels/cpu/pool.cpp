#include "wick/kernels/pool.h"

#include "wick/kernels/cpu/channels_last.h"
#include "wick/kernels/pool_axis.h"

namespace wick::WICK_ISA {

namespace {

using Axis = PoolAxis;
using Range = PoolRange;

// The axis as the compiler should know it: most windows are not dilated.
template <bool kDilated>
WICK_INLINE Axis known(Axis axis) {
  if (!kDilated) axis.dilation = 1;
  return axis;
}

template <class T, class Tap, bool kDilated>
void max_forward(const View& x_view, const View& y_view, const View& tap_view,
                 const Pool2dParams& params) {
  using V = Vec<Accumulator<T>>;
  using E = typename V::Element;
  const Images<const T> x(x_view);
  const Images<T> y(y_view);
  const Images<Tap> taps(tap_view);
  const Axis all_rows(x.h, y.h, params, 0), all_columns(x.w, y.w, params, 1);
  const int64_t work = y.w * y.c * params.kernel[0] * params.kernel[1];
  for_each_row(y.n, y.h, work, [&](int64_t n, int64_t p) {
    const Axis rows = known<kDilated>(all_rows), columns = known<kDilated>(all_columns);
    const Range r = rows.window(p);
    for (int64_t q = 0; q < y.w; ++q) {
      const Range s = columns.window(q);
      const auto tap = [&](int64_t i, int64_t j) {
        return static_cast<E>(rows.tap(p, i) * columns.kernel + columns.tap(q, j));
      };
      for_each_vector<V>(y.c, [&](int64_t c, int64_t lanes) {
        V best(-__builtin_inff());
        V best_tap(tap(r.begin, s.begin));
        for (int64_t i = r.begin; i < r.end; i += rows.dilation) {
          for (int64_t j = s.begin; j < s.end; j += columns.dilation) {
            const V value = load_lanes<V>(x.pixel(n, i, j) + c, lanes);
            const auto better = (value > best) | isnan(value);
            best = select(better, value, best);
            best_tap = select(better, V(tap(i, j)), best_tap);
          }
        }
        store_lanes(best, y.pixel(n, p, q) + c, lanes);
        store_lanes(best_tap, taps.pixel(n, p, q) + c, lanes);
      });
    }
  });
}

template <class T, class Tap, bool kDilated>
void max_backward(const View& dy_view, const View& tap_view, const View& dx_view,
                  const Pool2dParams& params) {
  using V = Vec<Accumulator<T>>;
  using E = typename V::Element;
  const Images<const T> dy(dy_view);
  const Images<const Tap> taps(tap_view);
  const Images<T> dx(dx_view);
  const Axis all_rows(dx.h, dy.h, params, 0), all_columns(dx.w, dy.w, params, 1);
  for_each_row(dx.n, dx.h, dx.w * dx.c * 2, [&](int64_t n, int64_t i) {
    const Axis rows = known<kDilated>(all_rows), columns = known<kDilated>(all_columns);
    const Range p_range = rows.holders(i);
    for (int64_t j = 0; j < dx.w; ++j) {
      const Range q_range = columns.holders(j);
      for_each_vector<V>(dx.c, [&](int64_t c, int64_t lanes) {
        V sum(0);
        for (int64_t p = p_range.begin; p < p_range.end; ++p) {
          if (!rows.holds(p, i)) continue;
          for (int64_t q = q_range.begin; q < q_range.end; ++q) {
            if (!columns.holds(q, j)) continue;
            const int64_t tap = rows.tap(p, i) * columns.kernel + columns.tap(q, j);
            const V chosen = load_lanes<V>(taps.pixel(n, p, q) + c, lanes);
            const V grad = load_lanes<V>(dy.pixel(n, p, q) + c, lanes);
            sum = select(chosen == V(static_cast<E>(tap)), sum + grad, sum);
          }
        }
        store_lanes(sum, dx.pixel(n, i, j) + c, lanes);
      });
    }
  });
}

template <class T, class Tap>
void max_gather(const View& g_view, const View& tap_view, const View& y_view,
                const Pool2dParams& params) {
  const Images<const T> g(g_view);
  const Images<const Tap> taps(tap_view);
  const Images<T> y(y_view);
  const Axis rows(g.h, y.h, params, 0), columns(g.w, y.w, params, 1);
  for_each_row(y.n, y.h, y.w * y.c, [&](int64_t n, int64_t p) {
    for (int64_t q = 0; q < y.w; ++q) {
      for (int64_t c = 0; c < y.c; ++c) {
        const int64_t tap = taps.pixel(n, p, q)[c];
        const int64_t i = rows.start(p) + tap / columns.kernel * rows.dilation;
        const int64_t j = columns.start(q) + tap % columns.kernel * columns.dilation;
        y.pixel(n, p, q)[c] = g.pixel(n, i, j)[c];
      }
    }
  });
}

template <class Tap>
void max_indices(const View& x_view, const View& tap_view, const View& index_view,
                 const Pool2dParams& params) {
  const int64_t h = x_view.shape[2], w = x_view.shape[3];
  const Images<const Tap> taps(tap_view);
  const Images<int64_t> indices(index_view);
  const Axis rows(h, taps.h, params, 0), columns(w, taps.w, params, 1);
  for_each_row(taps.n, taps.h, taps.w * taps.c, [&](int64_t n, int64_t p) {
    for (int64_t q = 0; q < taps.w; ++q) {
      for (int64_t c = 0; c < taps.c; ++c) {
        const int64_t tap = taps.pixel(n, p, q)[c];
        const int64_t i = rows.start(p) + tap / columns.kernel * rows.dilation;
        const int64_t j = columns.start(q) + tap % columns.kernel * columns.dilation;
        indices.pixel(n, p, q)[c] = i * w + j;
      }
    }
  });
}

template <class T>
void avg_forward(const View& x_view, const View& y_view, const Pool2dParams& params) {
  using V = Vec<Accumulator<T>>;
  using E = typename V::Element;
  const Images<const T> x(x_view);
  const Images<T> y(y_view);
  const Axis rows(x.h, y.h, params, 0), columns(x.w, y.w, params, 1);
  const int64_t work = x.h * x.w * x.c / y.h;
  for_each_row(y.n, y.h, work, [&](int64_t n, int64_t p) {
    const Range r = rows.window(p);
    for (int64_t q = 0; q < y.w; ++q) {
      const Range s = columns.window(q);
      const V scale(E(1) / static_cast<E>(pool_divisor(rows, columns, p, q,
                                                       params.count_include_pad, params.divisor)));
      for_each_vector<V>(y.c, [&](int64_t c, int64_t lanes) {
        V sum(0);
        for (int64_t i = r.begin; i < r.end; ++i) {
          V row_sum(0);  // by rows, for the rounding errors' sake
          for (int64_t j = s.begin; j < s.end; ++j) {
            row_sum += load_lanes<V>(x.pixel(n, i, j) + c, lanes);
          }
          sum += row_sum;
        }
        store_lanes(sum * scale, y.pixel(n, p, q) + c, lanes);
      });
    }
  });
}

template <class T>
void avg_backward(const View& dy_view, const View& dx_view, const Pool2dParams& params) {
  using V = Vec<Accumulator<T>>;
  using E = typename V::Element;
  const Images<const T> dy(dy_view);
  const Images<T> dx(dx_view);
  const Axis rows(dx.h, dy.h, params, 0), columns(dx.w, dy.w, params, 1);
  // Where all windows are divided by the same.
  const bool alike = params.divisor != 0 || (params.count_include_pad && !params.adaptive &&
                                             !rows.overhangs && !columns.overhangs);
  const int64_t same_divisor = params.divisor != 0 ? params.divisor : rows.kernel * columns.kernel;
  const E same_scale = E(1) / static_cast<E>(same_divisor);
  for_each_row(dx.n, dx.h, dx.w * dx.c * 2, [&](int64_t n, int64_t i) {
    const Range p_range = rows.holders(i);
    for (int64_t j = 0; j < dx.w; ++j) {
      const Range q_range = columns.holders(j);
      for_each_vector<V>(dx.c, [&](int64_t c, int64_t lanes) {
        V sum(0);
        for (int64_t p = p_range.begin; p < p_range.end; ++p) {
          for (int64_t q = q_range.begin; q < q_range.end; ++q) {
            const V scale(alike ? same_scale
                                : E(1) / static_cast<E>(pool_divisor(rows, columns, p, q,
                                                                     params.count_include_pad, 0)));
            sum = fma(load_lanes<V>(dy.pixel(n, p, q) + c, lanes), scale, sum);
          }
        }
        store_lanes(sum, dx.pixel(n, i, j) + c, lanes);
      });
    }
  });
}

// Calls `run(Type<T>, Type<Tap>)` with the types of the elements and of the taps.
template <class Run>
WICK_INLINE void visit_types(Dtype dtype, Dtype taps, const Run& run) {
  visit_floating(dtype, [&](auto type) {
    if (taps == Dtype::kUint8) {
      run(type, Type<uint8_t>{});
    } else {
      run(type, Type<int32_t>{});
    }
  });
}

}  // namespace

void max_pool2d_forward(const View& x, const View& y, const View& taps,
                        const Pool2dParams& params) {
  visit_types(x.dtype, taps.dtype, [&]<class T, class Tap>(Type<T>, Type<Tap>) {
    const bool dilated = params.dilation[0] > 1 || params.dilation[1] > 1;
    const auto run = dilated ? &max_forward<T, Tap, true> : &max_forward<T, Tap, false>;
    run(x, y, taps, params);
  });
}
void max_pool2d_backward(const View& dy, const View& taps, const View& dx,
                         const Pool2dParams& params) {
  visit_types(dy.dtype, taps.dtype, [&]<class T, class Tap>(Type<T>, Type<Tap>) {
    const bool dilated = params.dilation[0] > 1 || params.dilation[1] > 1;
    const auto run = dilated ? &max_backward<T, Tap, true> : &max_backward<T, Tap, false>;
    run(dy, taps, dx, params);
  });
}
void max_pool2d_gather(const View& g, const View& taps, const View& y, const Pool2dParams& params) {
  visit_types(g.dtype, taps.dtype, [&]<class T, class Tap>(Type<T>, Type<Tap>) {
    max_gather<T, Tap>(g, taps, y, params);
  });
}
void max_pool2d_indices(const View& x, const View& taps, const View& indices,
                        const Pool2dParams& params) {
  const auto run = taps.dtype == Dtype::kUint8 ? &max_indices<uint8_t> : &max_indices<int32_t>;
  run(x, taps, indices, params);
}
void avg_pool2d_forward(const View& x, const View& y, const Pool2dParams& params) {
  visit_floating(x.dtype, [&]<class T>(Type<T>) { avg_forward<T>(x, y, params); });
}
void avg_pool2d_backward(const View& dy, const View& dx, const Pool2dParams& params) {
  visit_floating(dy.dtype, [&]<class T>(Type<T>) { avg_backward<T>(dy, dx, params); });
}

}  // namespace wick::WICK_ISA
