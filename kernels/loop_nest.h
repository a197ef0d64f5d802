#pragma once

#include "wick/core/base/view.h"

namespace wick {

/// How several views of one (broadcast) shape are walked together: axis 0 is the innermost, axes
/// are ordered by the first view's strides, and neighbours that all views walk as one are merged.
/// There is at least one axis.
template <int kViews>
struct LoopNest {
  int rank = 0;
  int64_t numel = 1;
  int64_t sizes[kMaxRank] = {};
  int64_t strides[kViews][kMaxRank] = {};

  /// `views`: pointers to `count` <= kViews views whose shapes broadcast to the first one's.
  WICK_INLINE LoopNest(const View* const* views, int count) {
    const Shape& shape = views[0]->shape;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      numel *= shape[axis];
      if (shape[axis] == 1) continue;
      sizes[rank] = shape[axis];
      for (int v = 0; v < count; ++v) {
        const int own = axis - shape.rank() + views[v]->rank();
        const bool broadcast = own < 0 || views[v]->shape[own] == 1;
        strides[v][rank] = broadcast ? 0 : views[v]->strides[own];
      }
      ++rank;
    }
    for (int i = 1; i < rank; ++i) {
      for (int j = i; j > 0 && before(j, j - 1, count); --j) swap(j, j - 1);
    }
    merge(count);
  }

  /// Elements of the innermost axis.
  WICK_INLINE int64_t row() const { return sizes[0]; }

  /// Whether view `v` is one run of neighbouring elements.
  WICK_INLINE bool is_dense(int v) const {
    int64_t expected = 1;
    for (int axis = 0; axis < rank; ++axis) {
      if (strides[v][axis] != expected) return false;
      expected *= sizes[axis];
    }
    return true;
  }

 private:
  // Whether axis `a` belongs further in than axis `b`, by the first view that tells.
  WICK_INLINE bool before(int a, int b, int count) const {
    for (int v = 0; v < count; ++v) {
      const int64_t sa = strides[v][a], sb = strides[v][b];
      if (sa == 0 || sb == 0 || sa == sb) continue;
      return sa < sb;
    }
    return false;
  }
  WICK_INLINE void swap(int a, int b) {
    exchange(sizes[a], sizes[b]);
    for (auto& s : strides) exchange(s[a], s[b]);
  }
  WICK_INLINE static void exchange(int64_t& a, int64_t& b) {
    const int64_t t = a;
    a = b;
    b = t;
  }
  WICK_INLINE void merge(int count) {
    int kept = 0;
    for (int axis = 1; axis < rank; ++axis) {
      bool one = true;
      for (int v = 0; v < count; ++v) {
        one = one && strides[v][axis] == strides[v][kept] * sizes[kept];
      }
      if (one) {
        sizes[kept] *= sizes[axis];
        continue;
      }
      ++kept;
      sizes[kept] = sizes[axis];
      for (auto& s : strides) s[kept] = s[axis];
    }
    if (rank > 0) {
      rank = kept + 1;
      return;
    }
    rank = 1;
    sizes[0] = 1;
    for (auto& s : strides) s[0] = 1;
  }
};

/// A place in a LoopNest: the element offset of every view there.
template <int kViews>
struct LoopCursor {
  int64_t index[kMaxRank] = {};
  int64_t offset[kViews] = {};

  WICK_HOST_DEVICE LoopCursor(const LoopNest<kViews>& nest, int64_t position) {
    for (int axis = 0; axis < nest.rank; ++axis) {
      index[axis] = position % nest.sizes[axis];
      position /= nest.sizes[axis];
      for (int v = 0; v < kViews; ++v) offset[v] += index[axis] * nest.strides[v][axis];
    }
  }

  /// Moves on by `count` elements, at most to the end of the row.
  WICK_HOST_DEVICE void advance(const LoopNest<kViews>& nest, int64_t count) {
    index[0] += count;
    for (int v = 0; v < kViews; ++v) offset[v] += count * nest.strides[v][0];
    for (int axis = 0; axis + 1 < nest.rank && index[axis] == nest.sizes[axis]; ++axis) {
      index[axis] = 0;
      ++index[axis + 1];
      for (int v = 0; v < kViews; ++v) {
        offset[v] += nest.strides[v][axis + 1] - nest.sizes[axis] * nest.strides[v][axis];
      }
    }
  }
};

}  // namespace wick
