#pragma once

// Vendor libraries are opened when first needed, so that a program runs where they are missing.
namespace wick::cuda {

/// A library that stays open.
class DynamicLibrary {
 public:
  /// Looks for `file` where the system's loader does, then in CUDA_HOME and /usr/local/cuda. Error
  /// if it is not there, which names `product`.
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

}  // namespace wick::cuda
