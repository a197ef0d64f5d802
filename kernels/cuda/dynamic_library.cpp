#include "wick/kernels/cuda/dynamic_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "wick/core/base/check.h"

namespace wick::cuda {

DynamicLibrary::DynamicLibrary(const char* product, const char* file) : product_(product) {
  handle_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  const std::string reason = dlerror();
  const char* const home = std::getenv("CUDA_HOME");
  for (const char* folder : {home, "/usr/local/cuda"}) {
    if (folder == nullptr) continue;
    handle_ = dlopen((std::string(folder) + "/lib64/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
  }
  detail::fail("cuda: ", product, " is not installed: ", reason);
}

void* DynamicLibrary::symbol(const char* name) const {
  void* const found = dlsym(handle_, name);
  WICK_CHECK(found != nullptr, "cuda: ", product_, " is too old: it has no function ", name);
  return found;
}

}  // namespace wick::cuda
