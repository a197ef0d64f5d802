#pragma once

#include "wick/core/base/macros.h"
#include "wick/kernels/interpolate.h"

// The geometry of resizing, for the kernels of every device.
namespace wick {

/// How many elements an element of a resized axis is made of.
constexpr int resize_taps(ResizeRule rule) {
  return rule == ResizeRule::kCubic ? 4 : rule == ResizeRule::kLinear ? 2 : 1;
}

/// The elements that an element of the result is made of, in order, and how much of each. Where the
/// axis ends an element comes more than once.
template <class E, int kTaps>
struct ResizeSource {
  int64_t index[kTaps];
  E weight[kTaps];
};

/// One axis of `in` elements resized to `out`; positions between elements are held as E.
template <class E, ResizeRule kRule>
struct ResizeAxis {
  static constexpr int kTaps = resize_taps(kRule);
  using Source = ResizeSource<E, kTaps>;

  int64_t in, out;
  E scale;
  float nearest_scale;  // in float for every dtype, as PyTorch rounds it
  bool align_corners;
  bool copied;  // the axis stays as it is

  WICK_HOST_DEVICE ResizeAxis(int64_t in_size, int64_t out_size, const Interpolate2dParams& p,
                              int axis)
      : in(in_size),
        out(out_size),
        scale(static_cast<E>(p.scale[axis])),
        nearest_scale(static_cast<float>(p.scale[axis])),
        align_corners(p.align_corners),
        copied(in_size == out_size && p.scale[axis] == 1) {}

  WICK_HOST_DEVICE Source source(int64_t o) const {
    Source s = {};
    if (copied) {
      for (int k = 0; k < kTaps; ++k) s.index[k] = o;
      s.weight[0] = 1;
    } else if constexpr (kTaps == 1) {
      const float half = kRule == ResizeRule::kNearestExact ? 0.5f : 0.0f;
      s.index[0] = inside(static_cast<int64_t>((static_cast<float>(o) + half) * nearest_scale));
      s.weight[0] = 1;
    } else {
      place(s, position(o));
    }
    return s;
  }
  /// By what factor element `i` is part of element `o` of the result.
  WICK_HOST_DEVICE E factor(int64_t i, int64_t o) const {
    const Source s = source(o);
    E sum = 0;
    for (int k = 0; k < kTaps; ++k) sum += s.index[k] == i ? s.weight[k] : 0;
    return sum;
  }
  /// Bounds [begin, end) of the elements of the result that element `i` may be part of. The sources
  /// never go back as `o` grows.
  WICK_HOST_DEVICE int64_t begin(int64_t i) const {
    int64_t low = 0, high = out;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (source(middle).index[kTaps - 1] < i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  WICK_HOST_DEVICE int64_t end(int64_t i) const {
    int64_t low = 0, high = out;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (source(middle).index[0] <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  WICK_HOST_DEVICE int64_t inside(int64_t i) const { return i < 0 ? 0 : (i < in - 1 ? i : in - 1); }
  WICK_HOST_DEVICE E position(int64_t o) const {
    const E index = static_cast<E>(o), half = E(0.5);
    const E at = align_corners ? index * scale : (index + half) * scale - half;
    return kRule == ResizeRule::kLinear && at < 0 ? 0 : at;
  }
  WICK_HOST_DEVICE void place(Source& s, E at) const {
    const auto whole = static_cast<int64_t>(at);
    const int64_t floor = static_cast<E>(whole) > at ? whole - 1 : whole;  // below 0 too
    const int64_t first = floor < in - 1 ? floor : in - 1;
    const E rest = at - static_cast<E>(first), t = rest < 1 ? rest : 1;
    for (int k = 0; k < kTaps; ++k) s.index[k] = inside(first + k - (kTaps == 4 ? 1 : 0));
    if constexpr (kTaps == 2) {
      s.weight[0] = 1 - t;
      s.weight[1] = t;
    } else {
      s.weight[0] = outer(1 + t);
      s.weight[1] = inner(t);
      s.weight[2] = inner(1 - t);
      s.weight[3] = outer(2 - t);
    }
  }
  // Keys: Cubic convolution interpolation (1981) with a = -3/4, up to one element away and beyond.
  static WICK_HOST_DEVICE E inner(E d) { return (E(1.25) * d - E(2.25)) * d * d + 1; }
  static WICK_HOST_DEVICE E outer(E d) { return ((E(-0.75) * d + E(3.75)) * d - E(6)) * d + E(3); }
};

}  // namespace wick
