#pragma once

// What kernels on channels-last images share. Private to this folder.

#include "wick/core/base/parallel.h"
#include "wick/core/base/view.h"
#include "wick/kernels/cpu/rows.h"

namespace wick::WICK_ISA {

/// One channels-last image tensor, by rows of `c` channels.
template <class T>
struct Images {
  T* data;
  int64_t n, c, h, w;

  WICK_INLINE explicit Images(const View& x)
      : data(x.as<T>()), n(x.shape[0]), c(x.shape[1]), h(x.shape[2]), w(x.shape[3]) {}
  WICK_INLINE T* pixel(int64_t image, int64_t y, int64_t x) const {
    return data + ((image * h + y) * w + x) * c;
  }
};

/// Calls `body(image, row)` for rows [begin, end) of all images.
template <class Body>
[[gnu::flatten]] void run_rows(int64_t begin, int64_t end, int64_t h, const Body& body) {
  for (int64_t i = begin; i < end; ++i) body(i / h, i % h);
}

/// Calls `body(image, row)` for each row of each image of h rows, in parallel; `work` is what a row
/// costs, in elements.
template <class Body>
WICK_INLINE void for_each_row(int64_t images, int64_t h, int64_t work, const Body& body) {
  const int64_t grain = work >= 32768 ? 1 : 32768 / (work + 1) + 1;
  parallel_for(images * h, grain,
               [&](int64_t begin, int64_t end) { run_rows(begin, end, h, body); });
}

/// Calls `body(c, lanes)` for the vectors that cover `channels`.
template <class V, class Body>
WICK_INLINE void for_each_vector(int64_t channels, const Body& body) {
  int64_t c = 0;
  for (; c + V::size <= channels; c += V::size) body(c, V::size);
  if (c < channels) body(c, channels - c);
}

template <class V, class T>
WICK_INLINE V load_lanes(const T* p, int64_t lanes) {
  return lanes == V::size ? V::load(p) : V::load_partial(p, lanes);
}
template <class V, class T>
WICK_INLINE void store_lanes(V v, T* p, int64_t lanes) {
  if (lanes == V::size) {
    v.store(p);
  } else {
    v.store_partial(p, lanes);
  }
}

}  // namespace wick::WICK_ISA
