#pragma once

#include "wick/core/base/macros.h"
#include "wick/kernels/interpolate.h"

// The geometry of resizing, for the kernels of every device.
namespace wick {

/// The one or two elements that an element of the result is made of.
template <class E>
struct ResizeSource {
  int64_t first, second;
  E weight;  // of the second
};

/// One axis of `in` elements resized to `out`; positions between elements are held as E.
template <class E>
struct ResizeAxis {
  int64_t in, out;
  E scale;
  float nearest_scale;  // in float for every dtype, as PyTorch rounds it
  bool linear, align_corners;

  WICK_HOST_DEVICE ResizeAxis(int64_t in_size, int64_t out_size, const Interpolate2dParams& p,
                              int axis)
      : in(in_size),
        out(out_size),
        scale(static_cast<E>(p.scale[axis])),
        nearest_scale(static_cast<float>(p.scale[axis])),
        linear(p.linear),
        align_corners(p.align_corners) {}

  WICK_HOST_DEVICE ResizeSource<E> source(int64_t o) const {
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
  /// By what factor element `i` is part of element `o` of the result.
  WICK_HOST_DEVICE E factor(int64_t i, int64_t o) const {
    const ResizeSource<E> s = source(o);
    return (s.first == i ? 1 - s.weight : 0) + (s.second == i ? s.weight : 0);
  }
  /// Bounds [begin, end) of the elements of the result that element `i` may be part of. The sources
  /// never go back as `o` grows.
  WICK_HOST_DEVICE int64_t begin(int64_t i) const {
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
  WICK_HOST_DEVICE int64_t end(int64_t i) const {
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

}  // namespace wick
