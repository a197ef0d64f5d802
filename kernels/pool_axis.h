#pragma once

#include "wick/core/base/macros.h"
#include "wick/kernels/pool.h"

// The geometry of pooling, for the kernels of every device.
namespace wick {

/// A half-open range of indices.
struct PoolRange {
  int64_t begin, end;
  WICK_HOST_DEVICE int64_t size() const { return end - begin; }
};

/// The windows along one axis: `in` elements, `out` windows.
struct PoolAxis {
  int64_t in, out, kernel, stride, padding;
  bool adaptive;

  WICK_HOST_DEVICE PoolAxis(int64_t in_size, int64_t out_size, const Pool2dParams& p, int axis)
      : in(in_size),
        out(out_size),
        kernel(p.kernel[axis]),
        stride(p.stride[axis]),
        padding(p.padding[axis]),
        adaptive(p.adaptive) {}

  /// First element of window `o`, which may lie in the padding.
  WICK_HOST_DEVICE int64_t start(int64_t o) const {
    return adaptive ? o * in / out : o * stride - padding;
  }
  /// Elements that window `o` holds.
  WICK_HOST_DEVICE PoolRange window(int64_t o) const {
    const int64_t begin = start(o);
    const int64_t end = adaptive ? ((o + 1) * in + out - 1) / out : begin + kernel;
    return {begin < 0 ? 0 : begin, end > in ? in : end};
  }
  /// Windows that hold element `i`.
  WICK_HOST_DEVICE PoolRange holders(int64_t i) const {
    if (adaptive) return {i * out / in, ((i + 1) * out - 1) / in + 1};
    const int64_t last = (i + padding) / stride + 1, before = i + padding - kernel;
    const int64_t first = before < 0 ? 0 : before / stride + 1;
    return {first, last > out ? out : last};
  }
};

/// What the sum over window (p, q) is divided by.
WICK_HOST_DEVICE int64_t pool_divisor(const PoolAxis& rows, const PoolAxis& columns, int64_t p,
                                      int64_t q, bool count_include_pad) {
  if (count_include_pad && !rows.adaptive) return rows.kernel * columns.kernel;
  return rows.window(p).size() * columns.window(q).size();
}

}  // namespace wick
