#include "wick/core/base/detail/dynamic_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "wick/core/base/check.h"

namespace wick {

namespace {

struct Opened {
  void* handle = nullptr;
  std::string path;
  std::string reason;  // why not: of a file that is there, or else of the system's loader
};

Opened open_anywhere(const std::string& file) {
  std::vector<std::string> paths = {file};
  const char* const home = std::getenv("CUDA_HOME");
  if (home != nullptr) {
    paths.push_back(concat(home, "/lib64/", file));
    paths.push_back(concat(home, "/lib/", file));
  }
  paths.push_back("/usr/local/cuda/lib64/" + file);
  Opened opened;
  for (const std::string& path : paths) {
    opened.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    opened.path = path;
    if (opened.handle != nullptr) return opened;
    const char* const reason = dlerror();
    if (opened.reason.empty() || access(path.c_str(), F_OK) == 0) opened.reason = reason;
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
  WICK_CHECK(opened.handle != nullptr, product, " cannot be opened: ", opened.reason,
             "; it was looked for in LD_LIBRARY_PATH, the system's folders, CUDA_HOME and "
             "/usr/local/cuda");
  handle_ = opened.handle;
}

void* DynamicLibrary::symbol(const char* name) const {
  void* const found = dlsym(handle_, name);
  WICK_CHECK(found != nullptr, product_, " is too old: it has no function ", name);
  return found;
}

}  // namespace wick
