#pragma once

#include <string>

// Libraries that few programs need are opened when first needed, so that a program runs where they
// are missing.
namespace wick {

/// Where `file` is: its name if the system's loader finds it, else its path in CUDA_HOME or
/// /usr/local/cuda; empty if it is nowhere.
std::string find_library(const std::string& file);

/// A library that stays open.
class DynamicLibrary {
 public:
  /// Looks for `file` as find_library does. Error if it is not there, which names `product`.
  DynamicLibrary(const char* product, const char* file);

  /// Sets `function` to what the library calls `name`. Error if it has no such function.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  const char* product_;
  void* handle_ = nullptr;
};

}  // namespace wick
