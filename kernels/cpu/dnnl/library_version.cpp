#include "wick/kernels/library_version.h"

#include <dnnl.h>

namespace wick::cpu {

std::string math_library() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

}  // namespace wick::cpu
