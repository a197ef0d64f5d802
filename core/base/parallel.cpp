#include "wick/core/base/parallel.h"

#include <omp.h>

#include "wick/core/base/check.h"

namespace wick {

namespace {
// OpenMP keeps a record of each thread on the stack: it does not survive ten thousands of them.
constexpr int kMaxThreads = 1024;
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

}  // namespace wick
