#include "wick/core/base/parallel.h"

#include <omp.h>

#include "wick/core/base/check.h"

namespace wick {

int num_threads() { return omp_get_max_threads(); }

void set_num_threads(int threads) {
  WICK_CHECK(threads >= 1, "set_num_threads: too few: got ", threads, ", expected 1 or more");
  omp_set_num_threads(threads);
}

}  // namespace wick
