#pragma once

#include "wick/core/base/view.h"

// How a reduction walks its input. The axes are sorted by stride, and neighbours that can be walked
// as one are merged. What has the smallest stride is the inner loop, contiguous where x is; the
// others are two outer loops, over what is kept and over what is reduced. So any combination of
// axes is one of two cases, inner axis reduced or kept. The sum of x [N, C, H, W], row-major, over
// N, H and W:
//
//   kept      C            a result per step
//   reduced   N
//   inner     H W, merged  reduced too: inner_reduced, inner_y = 0
//
//   for k below kept.count:  for r below reduced.count:  for i below inner_size:
//     y[kept.y(k) + i * inner_y] += x[kept.x(k) + reduced.x(r) + i * inner_x]
namespace wick {

/// Some axes walked as one: step i lies at offsets x(i) of the input and y(i) of the output.
struct Walk {
  int rank = 0;
  int64_t count = 1;
  int64_t sizes[kMaxRank], x_strides[kMaxRank], y_strides[kMaxRank];

  WICK_INLINE void push(int64_t size, int64_t x_stride, int64_t y_stride) {
    sizes[rank] = size;
    x_strides[rank] = x_stride;
    y_strides[rank++] = y_stride;
    count *= size;
  }
  WICK_HOST_DEVICE int64_t x(int64_t i) const { return offset(i, x_strides); }
  WICK_HOST_DEVICE int64_t y(int64_t i) const { return offset(i, y_strides); }

 private:
  WICK_HOST_DEVICE int64_t offset(int64_t i, const int64_t* strides) const {
    if (rank == 0) return 0;
    if (rank == 1) return i * strides[0];
    int64_t sum = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      sum += i % sizes[axis] * strides[axis];
      i /= sizes[axis];
    }
    return sum;
  }
};

/// One reduction: the axis with the smallest stride inside, the others in two walks.
struct Groups {
  bool inner_reduced = true;
  int64_t inner_size = 1, inner_x = 1, inner_y = 0;
  Walk kept, reduced;
};

/// `y`: of x's rank, size 1 along the reduced axes.
WICK_INLINE Groups group_axes(const View& x, const View& y) {
  struct Axis {
    int64_t size, x_stride, y_stride;
    bool reduced;

    // Whether this axis and `in`, the next one inside, can be walked as one.
    WICK_INLINE bool merges(const Axis& in) const {
      return reduced == in.reduced && x_stride == in.x_stride * in.size &&
             y_stride == in.y_stride * in.size;
    }
  };
  Axis axes[kMaxRank];
  int count = 0;
  for (int i = 0; i < x.rank(); ++i) {
    if (x.shape[i] == 1) continue;
    const bool reduced = y.shape[i] == 1;
    const Axis axis{x.shape[i], x.strides[i], reduced ? 0 : y.strides[i], reduced};
    int at = count++;
    for (; at > 0 && axes[at - 1].x_stride < axis.x_stride; --at) axes[at] = axes[at - 1];
    axes[at] = axis;
  }
  Groups g;
  if (count == 0) return g;
  Axis inner = axes[count - 1];
  int i = count - 2;
  for (; i >= 0 && axes[i].merges(inner); --i) inner.size *= axes[i].size;
  g.inner_reduced = inner.reduced;
  g.inner_size = inner.size;
  g.inner_x = inner.x_stride;
  g.inner_y = inner.y_stride;
  for (int k = 0; k <= i; ++k) {
    Axis axis = axes[k];
    while (k < i && axis.merges(axes[k + 1])) {
      axis = {axis.size * axes[k + 1].size, axes[k + 1].x_stride, axes[k + 1].y_stride,
              axis.reduced};
      ++k;
    }
    (axis.reduced ? g.reduced : g.kept).push(axis.size, axis.x_stride, axis.y_stride);
  }
  return g;
}

}  // namespace wick
