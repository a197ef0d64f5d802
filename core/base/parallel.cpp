#include "wick/core/base/parallel.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "wick/core/base/check.h"
#include "wick/core/base/detail/thread_team.h"

namespace wick {

namespace {

constexpr int kMaxThreads = 1024;
// A thread that is held up costs a piece: so there are several for each.
constexpr int64_t kPiecesPerThread = 4;

thread_local constinit bool busy = false;       // with a piece of a call
thread_local constinit int threads_wanted = 0;  // set_num_threads(); 0 if it was not called

// The threads that compute with this one. A piece does not touch `team`: a thread that touches a
// thread_local object with a destructor for the first time waits for the library that is being
// loaded, whose static objects may wait for the piece.
struct Team {
  detail::ThreadTeam* threads = nullptr;
  bool lost = false;  // by a fork, which copies the thread that calls it and no other
  std::shared_ptr<Executor> executor;

  ~Team() {
    if (!lost) delete std::exchange(threads, nullptr);
  }
};
thread_local constinit Team team;

void after_fork() { team.lost = team.lost || team.threads != nullptr; }

int default_threads() {
  static const int threads = [] {
    const char* text = std::getenv("OMP_NUM_THREADS");  // as other libraries that compute
    const int64_t wanted = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
    if (wanted > 0) {
      WICK_CHECK(wanted <= kMaxThreads, "threads: OMP_NUM_THREADS: got ", wanted,
                 ", expected at most ", kMaxThreads);
      return static_cast<int>(wanted);
    }
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
    return CPU_COUNT(&cores) < kMaxThreads ? CPU_COUNT(&cores) : kMaxThreads;
  }();
  return threads;
}

// A call of run_pieces.
struct Call {
  int64_t n, pieces;
  detail::RunPiece run;
  const void* body;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  std::exception_ptr error = nullptr;  // the first
  std::atomic<int> next{0};            // piece, where an executor runs them
};

void do_piece(const void* context, int piece, int thread) {
  Call& call = *static_cast<Call*>(const_cast<void*>(context));
  const bool before = std::exchange(busy, true);
  try {
    call.run(call.body, call.n * piece / call.pieces, call.n * (piece + 1) / call.pieces, thread);
  } catch (...) {
    if (!call.failed.test_and_set()) call.error = std::current_exception();
  }
  busy = before;
}

void do_next_pieces(const void* context, int thread) {
  Call& call = *static_cast<Call*>(const_cast<void*>(context));
  for (int piece = 0; (piece = call.next.fetch_add(1)) < call.pieces;) {
    do_piece(context, piece, thread);
  }
}

}  // namespace

int num_threads() { return threads_wanted > 0 ? threads_wanted : default_threads(); }

void set_num_threads(int threads) {
  WICK_CHECK(threads >= 1 && threads <= kMaxThreads, "set_num_threads: got ", threads,
             ", expected 1 to ", kMaxThreads);
  threads_wanted = threads;
}

void set_executor(std::shared_ptr<Executor> executor) { team.executor = std::move(executor); }

void detail::begin_team() {
  if (team.threads != nullptr && !team.lost) return;
  const char* op = current_op();
  WICK_CHECK(!team.lost, *op != 0 ? op : "threads",
             ": this process was forked after its parent had computed on several threads, which a "
             "fork does not copy: got num_threads() of ",
             num_threads(), ", expected set_num_threads(1), or a fork before the first operation");
  static const int registered = pthread_atfork(nullptr, nullptr, &after_fork);
  WICK_CHECK(registered == 0, "threads: pthread_atfork failed: got error ", registered);
  team.threads = new ThreadTeam;
}

int64_t detail::pieces_of(int64_t most, int64_t threads) {
  const int64_t pieces = threads * kPiecesPerThread;
  return most < pieces ? most : pieces;
}

void detail::run_pieces(int64_t n, int64_t pieces, int threads, RunPiece run, const void* body) {
  if (busy) {  // within a piece of another call
    for (int64_t i = 0; i < pieces; ++i) run(body, n * i / pieces, n * (i + 1) / pieces, 0);
    return;
  }
  Call call{.n = n, .pieces = pieces, .run = run, .body = body};
  if (team.executor != nullptr) {
    team.executor->run(threads, &do_next_pieces, &call);
  } else {
    begin_team();
    team.threads->run(threads, static_cast<int>(pieces), &do_piece, &call);
  }
  if (call.error) std::rethrow_exception(call.error);
}

}  // namespace wick
