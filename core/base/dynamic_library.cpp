#include "wick/core/base/dynamic_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "wick/core/base/check.h"

namespace wick {

namespace {

struct Opened {
  void* handle = nullptr;
  std::string path;
  std::string reason;  // why the system's loader did not find it
};

Opened open_anywhere(const std::string& file) {
  std::vector<std::string> paths = {file};
  const char* const home = std::getenv("CUDA_HOME");
  if (home != nullptr) paths.push_back(concat(home, "/lib64/", file));
  paths.push_back("/usr/local/cuda/lib64/" + file);
  Opened opened;
  for (const std::string& path : paths) {
    opened.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    opened.path = path;
    if (opened.handle != nullptr) return opened;
    if (opened.reason.empty()) opened.reason = dlerror();
  }
  return opened;
}

}  // namespace

std::string find_library(const std::string& file) {
  const Opened opened = open_anywhere(file);
  if (opened.handle == nullptr) return "";
  dlclose(opened.handle);
  return opened.path;
}

DynamicLibrary::DynamicLibrary(const char* product, const char* file) : product_(product) {
  const Opened opened = open_anywhere(file);
  WICK_CHECK(opened.handle != nullptr, "cuda: ", product, " is not installed: ", opened.reason,
             "; it is not in CUDA_HOME or /usr/local/cuda either");
  handle_ = opened.handle;
}

void* DynamicLibrary::symbol(const char* name) const {
  void* const found = dlsym(handle_, name);
  WICK_CHECK(found != nullptr, "cuda: ", product_, " is too old: it has no function ", name);
  return found;
}

}  // namespace wick
