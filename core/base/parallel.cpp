#include "wick/core/base/parallel.h"

#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <exception>

#include "wick/core/base/check.h"

namespace wick {

namespace {
// OpenMP keeps a record of each thread on the stack: it does not survive ten thousands of them.
constexpr int kMaxThreads = 1024;

thread_local bool has_team = false;   // this thread has computed together with others
thread_local bool lost_team = false;  // which a fork left behind: to call for them waits for ever

// In the child only the thread that forked lives on.
void after_fork() { lost_team = lost_team || has_team; }
}  // namespace

int num_threads() {
  const int threads = omp_get_max_threads();
  WICK_CHECK(threads <= kMaxThreads, "threads: OpenMP is set to ", threads,
             " (OMP_NUM_THREADS?), expected at most ", kMaxThreads);
  return threads;
}

void set_num_threads(int threads) {
  WICK_CHECK(threads >= 1 && threads <= kMaxThreads, "set_num_threads: got ", threads,
             ", expected 1 to ", kMaxThreads);
  omp_set_num_threads(threads);
}

void detail::begin_team() {
  if (has_team && !lost_team) return;
  const char* op = current_op();
  WICK_CHECK(!lost_team, *op != 0 ? op : "threads",
             ": this process was forked after its parent had computed on several threads, which a "
             "fork does not copy: got num_threads() of ",
             num_threads(), ", expected set_num_threads(1), or a fork before the first operation");
  static const int registered = pthread_atfork(nullptr, nullptr, &after_fork);
  WICK_CHECK(registered == 0, "threads: pthread_atfork failed: got error ", registered);
  has_team = true;
}

void detail::run_pieces(int64_t n, int pieces,
                        void (*run)(const void* body, int64_t begin, int64_t end),
                        const void* body) {
  begin_team();
  std::exception_ptr error;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
#pragma omp parallel for num_threads(pieces) schedule(static, 1)
  for (int64_t i = 0; i < pieces; ++i) {
    try {
      run(body, n * i / pieces, n * (i + 1) / pieces);
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace wick
