#include "wick/kernels/sim/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "wick/kernels/sim/cuda_driver.h"
#include "wick/kernels/sim/machine.h"

// Kernels that are no part of the program, as the driver loads and launches them.

struct SimulatedModule {
  void* library = nullptr;
};
struct SimulatedFunction {
  std::string name;
  size_t bytes = 0;  // of its argument
  void (*thread)(const void* argument) = nullptr;
};

namespace {

// Loads a shared object for good. The loader takes what has the name of an earlier one for the
// same, so each has a name of its own.
void* open_image(const char* bytes, size_t count) {
  std::string path = std::filesystem::temp_directory_path() / "wick-module-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return nullptr;
  close(file);
  std::ofstream(path, std::ios::binary).write(bytes, std::streamsize(count));
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  unlink(path.c_str());
  return library;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  WICK_SIM_ENTER_DRIVER("cuModuleLoadData");
  if (const cudaError_t refused = wick::sim::refuse_in_capture(m); refused != cudaSuccess) {
    return static_cast<CUresult>(refused);
  }
  wick::sim::ModuleHead head;
  std::memcpy(&head, image, sizeof(head));
  if (head.magic != wick::sim::ModuleHead::kMagic) return CUDA_ERROR_INVALID_IMAGE;
  void* const library = open_image(static_cast<const char*>(image) + sizeof(head), head.bytes);
  if (library == nullptr) {
    const char* const why = dlerror();
    m.last_failure = why == nullptr ? "no file for a module" : why;
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *module = new SimulatedModule{library};
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  WICK_SIM_ENTER_DRIVER("cuModuleGetFunction");
  const std::string text = name;
  const void* const bytes = dlsym(module->library, (text + "_bytes").c_str());
  void* const thread = dlsym(module->library, (text + "_thread").c_str());
  if (bytes == nullptr || thread == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = new SimulatedFunction{text, *static_cast<const size_t*>(bytes),
                                    reinterpret_cast<void (*)(const void*)>(thread)};
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** arguments, void**) {
  const auto copy = std::make_shared<std::vector<uint64_t>>((function->bytes + 7) / 8);
  std::memcpy(copy->data(), arguments[0], function->bytes);
  const cudaError_t error = wick::sim::launch(
      function->name.c_str(), dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared,
      stream, [thread = function->thread, copy] { thread(copy->data()); });
  if (error != cudaSuccess) (void)cudaGetLastError();  // the driver keeps none
  return static_cast<CUresult>(error);
}
