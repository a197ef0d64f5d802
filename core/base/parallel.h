#pragma once

#include <cstdint>

#include "wick/core/base/macros.h"
#include "wick/core/base/threads.h"

namespace wick {

namespace detail {

using RunPiece = void (*)(const void* body, int64_t begin, int64_t end, int thread);

/// Calls `run(body, begin, end, thread)` for `pieces` equal parts of [0, n) on at most `threads`
/// threads, each with a number of its own from 0 on. A call within a piece of another runs on one.
/// The first exception that a piece throws is thrown here, once all have ended. Error in a process
/// that was forked from a thread which had used several.
void run_pieces(int64_t n, int64_t pieces, int threads, RunPiece run, const void* body);

/// How many pieces to cut work into, of which there can be at most `most`.
int64_t pieces_of(int64_t most, int64_t threads);

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

/// A piece of parallel_for: one copy of the body's code for one thread and for several.
template <class Body>
[[gnu::noinline]] void run_piece(const void* body, int64_t begin, int64_t end, int) {
  (*static_cast<const Body*>(body))(begin, end);
}

}  // namespace detail

/// Calls `body(begin, end)` over [0, n) cut into pieces of at least `grain`, which threads take as
/// they come. Use it where the result does not depend on the cut.
template <class Body>
WICK_INLINE void parallel_for(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  const int64_t most = (n + grain - 1) / grain;
  const int64_t threads = most < 2 ? 1 : (num_threads() < most ? num_threads() : most);
  if (threads == 1) {
    return detail::run_piece<Body>(&body, 0, n, 0);
  }
  detail::run_pieces(n, detail::pieces_of(most, threads), static_cast<int>(threads),
                     detail::run_piece<Body>, &body);
}

/// Calls `body(thread, begin, end)` over [0, n), as parallel_for does, on at most `threads`
/// threads: `thread`, from 0 to `threads - 1`, says whose memory the piece may use.
template <class Body>
WICK_INLINE void parallel_for_threads(int64_t n, int64_t threads, const Body& body) {
  if (n <= 0) return;
  if (threads == 1) {
    body(int64_t{0}, int64_t{0}, n);
    return;
  }
  detail::run_pieces(
      n, detail::pieces_of(n, threads), static_cast<int>(threads),
      [](const void* of, int64_t begin, int64_t end, int thread) {
        (*static_cast<const Body*>(of))(int64_t{thread}, begin, end);
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
