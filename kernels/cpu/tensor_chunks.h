#pragma once

#include "wick/core/base/parallel.h"

namespace wick::WICK_ISA {

/// Calls update(c, i, begin, end) for all elements of `count` tensors, `numel(i)` in the i-th,
/// where c counts the chunks of all, as one parallel loop: thousands of small tensors cost as much
/// as one large one.
template <class Numel, class Update>
void for_each_chunk(int64_t count, int64_t chunk, const Numel& numel, const Update& update) {
  int64_t chunks = 0;
  for (int64_t i = 0; i < count; ++i) chunks += (numel(i) + chunk - 1) / chunk;
  parallel_for(chunks, 4, [&](int64_t first, int64_t last) {
    int64_t before = 0;
    for (int64_t i = 0; i < count && before < last; ++i) {
      const int64_t n = numel(i);
      const int64_t own = (n + chunk - 1) / chunk;
      const int64_t from = first > before ? first - before : 0;
      const int64_t to = last - before < own ? last - before : own;
      for (int64_t c = from; c < to; ++c) {
        update(before + c, i, c * chunk, (c + 1) * chunk < n ? (c + 1) * chunk : n);
      }
      before += own;
    }
  });
}

}  // namespace wick::WICK_ISA
