#include "wick/kernels/library_version.h"

#include <dnnl.h>
#include <omp.h>

#include "wick/core/base/threads.h"

namespace wick::cpu {

std::string math_library() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

void set_library_threads() { omp_set_num_threads(num_threads()); }

}  // namespace wick::cpu
