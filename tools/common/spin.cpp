#include "wick/tools/common/spin.h"

#include <unistd.h>

#include <cstdlib>

namespace wick::tool {

void spin_briefly(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = 0;
  setenv("GOMP_SPINCOUNT", kSpinCount, 1);
  execv(path, argv);  // returns only if it fails: then it goes on as it is
}

}  // namespace wick::tool
