#pragma once

#include <algorithm>

#include "wick/core/ops/detail/pool_images.h"
#include "wick/core/ops/detail/volume.h"
#include "wick/core/ops/detail/wide.h"

// What max and average pooling of signals, images and volumes share.
namespace wick {

// A pooling of signals, images or volumes (1 to 3 axes), with an entry for each axis.
struct Pooling {
  const char* op;
  int axes;
  Shape kernel, stride, padding, dilation;
  PoolWindows common;  // what holds for all axes

  // The windows of the axes `rows` and `columns`; -1 stands for an axis that stays as it is.
  PoolWindows windows(int rows, int columns) const {
    PoolWindows w = common;
    int to = 0;
    for (const int axis : {rows, columns}) {
      if (axis >= 0) {
        w.kernel[to] = kernel[axis];
        w.stride[to] = stride[axis];
        w.padding[to] = padding[axis];
        w.dilation[to] = dilation[axis];
      }
      ++to;
    }
    return w;
  }
  // The same of a pooling that tiles x evenly into `output`.
  PoolWindows tiles(int rows, int columns, const Tensor& x, const Shape& output) const {
    PoolWindows w = common;
    const int64_t kept = axes == 3 ? output[1] * output[2] : 1;
    w.size = {kept, kept};
    int to = 0;
    for (const int axis : {rows, columns}) {
      if (axis >= 0) {
        const int64_t in = x.size(axis + 2), out = output[axis];
        w.size[to] = out;
        w.kernel[to] = in % out == 0 ? in / out : std::min(in / out + 2, in);  // the largest
      }
      ++to;
    }
    return w;
  }
};

/// Error unless x has N, C and `axes` axes more, none of these empty.
void check_pool_input(const char* op, const Tensor& x, int axes);

Pooling checked_pooling(const char* op, int axes, const Tensor& x, const Shape& kernel_size,
                        const Shape& stride, const Shape& padding, const Shape& dilation,
                        bool ceil_mode);

/// `x` in the precision that autocast wants of poolings: on the CPU float32 for volumes.
Tensor cast_to_pool(const char* op, const Tensor& x, int axes);

// `pooled(x)` of x with its N, added where there is none.
template <class Pooled>
Tensor batched(const char* op, const Tensor& x, int axes, const Pooled& pooled) {
  return x.rank(op) == axes + 1 ? pooled(x.unsqueeze(0)).squeeze(0) : pooled(x);
}
template <class Pooled>
Sorted batched_with_indices(const char* op, const Tensor& x, int axes, const Pooled& pooled) {
  if (x.rank(op) != axes + 1) return pooled(x);
  const Sorted all = pooled(x.unsqueeze(0));
  return {all.values.squeeze(0), all.indices.squeeze(0)};
}

// Volumes are pooled as images, and then along their depth, as images whose rows are these. The
// first of equal elements, and the last NaN, are the same as in one go.
template <class Find>
Tensor pool_values(const Tensor& x, int axes, const Find& windows_of,
                   Tensor (*pool_images)(const Tensor&, const PoolWindows&)) {
  if (axes == 1) return pool_images(x.unsqueeze(2), windows_of(-1, 0)).squeeze(2);
  if (axes == 2) return pool_images(x, windows_of(0, 1));
  const Tensor planes = pool_images(planes_of(x), windows_of(1, 2));
  const Tensor rows = planes_as_rows(planes, x.size(0), x.size(2));
  return rows_as_planes(pool_images(rows, windows_of(0, -1)), planes.size(2), planes.size(3));
}
// How an adaptive pooling tiles x: its windows, by axes.
inline auto adaptive_windows(const char* op, int axes, const Tensor& x, const Shape& output_size) {
  check_pool_input(op, x, axes);
  WICK_CHECK(is_floating(x.dtype()), op, ": needs a floating dtype: got ", to_string(x.dtype()));
  Pooling pool{op, axes, {}, {}, {}, {}, {}};
  pool.common.adaptive = true;
  const Shape output = image_sizes(op, "output_size", output_size, 1, axes);
  return [pool, output, x](int rows, int columns) { return pool.tiles(rows, columns, x, output); };
}

}  // namespace wick
