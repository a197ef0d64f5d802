#pragma once

#include "wick/core/base/macros.h"
#include "wick/kernels/pool.h"

// The geometry of pooling, for the kernels of every device.
namespace wick {

/// a / b of numbers that are not negative. GPUs divide numbers of 32 bits several times faster.
WICK_HOST_DEVICE int64_t quotient(int64_t a, int64_t b) {
#ifdef __CUDA_ARCH__
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
#endif
  return a / b;
}

/// A half-open range of indices.
struct PoolRange {
  int64_t begin, end;
  WICK_HOST_DEVICE int64_t size() const { return end - begin; }
};

/// The windows along one axis: `in` elements, `out` windows.
struct PoolAxis {
  int64_t in, out, kernel, stride, padding, dilation;
  int64_t reach;  // elements from the first to the last of a window
  bool adaptive;
  bool overhangs;  // windows end behind the padding

  WICK_HOST_DEVICE PoolAxis(int64_t in_size, int64_t out_size, const Pool2dParams& p, int axis)
      : in(in_size),
        out(out_size),
        kernel(p.kernel[axis]),
        stride(p.stride[axis]),
        padding(p.padding[axis]),
        dilation(p.dilation[axis]),
        reach(dilation * (kernel - 1) + 1),
        adaptive(p.adaptive),
        overhangs((out - 1) * stride + reach > in + 2 * padding) {}

  /// First element of window `o`, which may lie in the padding.
  WICK_HOST_DEVICE int64_t start(int64_t o) const {
    return adaptive ? quotient(o * in, out) : o * stride - padding;
  }
  /// Elements that window `o` holds: every `dilation`-th of these.
  WICK_HOST_DEVICE PoolRange window(int64_t o) const {
    const int64_t begin = start(o);
    const int64_t end = adaptive ? quotient((o + 1) * in + out - 1, out) : begin + reach;
    const int64_t left = begin < 0 ? quotient(dilation - 1 - begin, dilation) * dilation : 0;
    return {begin + left, end > in ? in : end};
  }
  /// Windows that hold element `i`: with a dilation, those of them that holds() names.
  WICK_HOST_DEVICE PoolRange holders(int64_t i) const {
    if (adaptive) return {quotient(i * out, in), quotient((i + 1) * out - 1, in) + 1};
    const int64_t last = quotient(i + padding, stride) + 1, before = i + padding - reach;
    const int64_t first = before < 0 ? 0 : quotient(before, stride) + 1;
    return {first, last > out ? out : last};
  }
  /// Whether window `o`, one of the holders of element `i`, does hold it.
  WICK_HOST_DEVICE bool holds(int64_t o, int64_t i) const {
    return dilation == 1 || (i - start(o)) % dilation == 0;
  }
  /// Which of the elements of window `o` the element `i` is.
  WICK_HOST_DEVICE int64_t tap(int64_t o, int64_t i) const {
    return dilation == 1 ? i - start(o) : (i - start(o)) / dilation;
  }
  /// Elements of window `o` in the image and its padding.
  WICK_HOST_DEVICE int64_t padded_size(int64_t o) const {
    const int64_t rest = in + padding - start(o);
    return overhangs && rest < kernel ? rest : kernel;
  }
};

/// What the sum over window (p, q) is divided by.
WICK_HOST_DEVICE int64_t pool_divisor(const PoolAxis& rows, const PoolAxis& columns, int64_t p,
                                      int64_t q, bool count_include_pad, int64_t divisor) {
  if (divisor != 0) return divisor;
  if (count_include_pad && !rows.adaptive) return rows.padded_size(p) * columns.padded_size(q);
  return rows.window(p).size() * columns.window(q).size();
}

}  // namespace wick
