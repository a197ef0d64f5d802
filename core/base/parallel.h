#pragma once

#include <cstdint>

#include "wick/core/base/macros.h"
#include "wick/core/base/threads.h"

namespace wick {

namespace detail {

/// Calls `run(body, begin, end)` for `pieces` equal parts of [0, n), one per thread. The first
/// exception that one of them throws is thrown here, once all have ended. Error in a process that
/// was forked from a thread which had used several.
void run_pieces(int64_t n, int pieces, void (*run)(const void* body, int64_t begin, int64_t end),
                const void* body);

/// Tells that this thread is about to use several: error where it cannot, because of a fork.
void begin_team();

template <class Body>
struct ChunkRun {
  int64_t n, chunk;
  const Body& body;

  WICK_INLINE void operator()(int64_t first, int64_t last) const {
    for (int64_t i = first; i < last; ++i) {
      body(i, i * chunk, (i + 1) * chunk < n ? (i + 1) * chunk : n);
    }
  }
};

}  // namespace detail

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
  detail::run_pieces(
      n, static_cast<int>(threads),
      [](const void* of, int64_t begin, int64_t end) {
        (*static_cast<const Body*>(of))(begin, end);
      },
      &body);
}

/// Calls `body(i, begin, end)` for the i-th run of `chunk` elements of [0, n). The cut is the same
/// for any number of threads: partial results kept per chunk and added in order give the same bits.
template <class Body>
WICK_INLINE void parallel_chunks(int64_t n, int64_t chunk, const Body& body) {
  const int64_t count = (n + chunk - 1) / chunk;
  parallel_for(count, 1, detail::ChunkRun<Body>{n, chunk, body});
}

}  // namespace wick
