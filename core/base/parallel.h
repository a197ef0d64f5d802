#pragma once

#include <cstdint>

#include "wick/core/base/macros.h"
#include "wick/core/base/threads.h"

namespace wick {

/// Calls `body(begin, end)` over [0, n) cut into pieces of at least `grain`, one per thread. Use it
/// where the result does not depend on the cut.
template <class Body>
WICK_INLINE void parallel_for(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  const int64_t most = (n + grain - 1) / grain;
  const int64_t threads = most < 2 ? 1 : (num_threads() < most ? num_threads() : most);
  if (threads == 1) {
    body(int64_t{0}, n);
    return;
  }
  const int team = static_cast<int>(threads);
#pragma omp parallel for num_threads(team) schedule(static, 1)
  for (int64_t t = 0; t < threads; ++t) body(n * t / threads, n * (t + 1) / threads);
}

/// Calls `body(i, begin, end)` for the i-th run of `chunk` elements of [0, n). The cut is the same
/// for any number of threads: partial results kept per chunk and added in order give the same bits.
template <class Body>
WICK_INLINE void parallel_chunks(int64_t n, int64_t chunk, const Body& body) {
  const int64_t count = (n + chunk - 1) / chunk;
  parallel_for(count, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      body(i, i * chunk, (i + 1) * chunk < n ? (i + 1) * chunk : n);
    }
  });
}

}  // namespace wick
