#pragma once

#include <cstdint>

#include "wick/core/base/view.h"

namespace wick {

/// A dense tensor as seen along one axis: element (o, i, j) lies at (o * size + i) * inner + j.
/// This holds for any order of the axes in memory, so that row-major and channels-last are one
/// case.
struct AxisSplit {
  int64_t outer = 0, size = 1, inner = 1;
};

/// `x` must be dense (is_dense).
WICK_INLINE AxisSplit split_at(const View& x, int axis) {
  AxisSplit s;
  if (x.rank() > 0) s.size = x.shape[axis];
  if (s.size > 1) s.inner = x.strides[axis];
  if (s.size > 0) s.outer = x.numel() / (s.size * s.inner);
  return s;
}

}  // namespace wick
