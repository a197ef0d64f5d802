#include "wick/kernels/cuda/runtime_compiler.h"

#include <map>
#include <memory>
#include <mutex>

#include "wick/core/base/check.h"
#include "wick/core/base/profiling.h"
#include "wick/kernels/cuda/common/allow_in_capture.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/cuda/kernel_cache.h"
#include "wick/kernels/cuda/runtime_headers.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/cuda_driver.h"
#include "wick/kernels/sim/nvrtc.h"
#else
#include <cuda.h>
#include <nvrtc.h>

#include "wick/core/base/detail/dynamic_library.h"
#endif

namespace wick::cuda {

struct CompiledKernel {
  Device device;
  CUmodule module = nullptr;  // never unloaded
  CUfunction function = nullptr;
};

namespace {

/// The functions of NVRTC that are used.
struct Nvrtc {
  decltype(nvrtcVersion)* version;
  decltype(nvrtcGetErrorString)* error_string;
  decltype(nvrtcCreateProgram)* create;
  decltype(nvrtcDestroyProgram)* destroy;
  decltype(nvrtcCompileProgram)* compile;
  decltype(nvrtcGetProgramLogSize)* log_size;
  decltype(nvrtcGetProgramLog)* log;
  decltype(nvrtcGetCUBINSize)* code_size;
  decltype(nvrtcGetCUBIN)* code;

#ifdef WICK_SIM
  Nvrtc()
      : version(nvrtcVersion),
        error_string(nvrtcGetErrorString),
        create(nvrtcCreateProgram),
        destroy(nvrtcDestroyProgram),
        compile(nvrtcCompileProgram),
        log_size(nvrtcGetProgramLogSize),
        log(nvrtcGetProgramLog),
        code_size(nvrtcGetCUBINSize),
        code(nvrtcGetCUBIN) {}
#else
  Nvrtc() {
    const std::string file = concat("libnvrtc.so.", int64_t{CUDART_VERSION / 1000});
    const DynamicLibrary library("NVRTC", file.c_str());
    library.find(version, "nvrtcVersion");
    library.find(error_string, "nvrtcGetErrorString");
    library.find(create, "nvrtcCreateProgram");
    library.find(destroy, "nvrtcDestroyProgram");
    library.find(compile, "nvrtcCompileProgram");
    library.find(log_size, "nvrtcGetProgramLogSize");
    library.find(log, "nvrtcGetProgramLog");
    library.find(code_size, "nvrtcGetCUBINSize");
    library.find(code, "nvrtcGetCUBIN");
  }
#endif
};
const Nvrtc& nvrtc() {
  static const Nvrtc instance;
  return instance;
}

/// The functions of the driver for kernels that are no part of the program.
struct ModuleDriver {
  decltype(cuModuleLoadData)* load;
  decltype(cuModuleGetFunction)* find;
  decltype(cuLaunchKernel)* launch;

#ifdef WICK_SIM
  ModuleDriver() : load(cuModuleLoadData), find(cuModuleGetFunction), launch(cuLaunchKernel) {}
#else
  ModuleDriver() {
    const DynamicLibrary library("NVIDIA's driver", "libcuda.so.1");
    library.find(load, "cuModuleLoadData");
    library.find(find, "cuModuleGetFunction");
    library.find(launch, "cuLaunchKernel");
  }
#endif
};
const ModuleDriver& driver() {
  static const ModuleDriver instance;
  return instance;
}

// The driver's numbers of errors are the runtime's.
void check_driver(CUresult status, const char* call) {
  check(static_cast<cudaError_t>(status), call);
}

void check_nvrtc(nvrtcResult status, const char* call) {
  WICK_CHECK(status == NVRTC_SUCCESS, "cuda: ", call, " failed: ", nvrtc().error_string(status));
}

class Program {
 public:
  explicit Program(const std::string& source) {
    std::vector<const char*> names, texts;
    const auto take = [&](const std::vector<RuntimeHeader>& headers) {
      for (const RuntimeHeader& header : headers) {
        names.push_back(header.name.c_str());
        texts.push_back(header.text.c_str());
      }
    };
    take(runtime_headers());
#ifndef WICK_SIM
    take(standard_headers());
#endif
    check_nvrtc(nvrtc().create(&program_, source.c_str(), "wick_runtime.cu",
                               static_cast<int>(names.size()), texts.data(), names.data()),
                "nvrtcCreateProgram");
  }
  ~Program() { (void)nvrtc().destroy(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string compile(const std::vector<std::string>& options) const {
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    const nvrtcResult status =
        nvrtc().compile(program_, static_cast<int>(words.size()), words.data());
    WICK_CHECK(status == NVRTC_SUCCESS,
               "cuda: NVRTC cannot compile a kernel: ", nvrtc().error_string(status), ": ",
               text("nvrtcGetProgramLog", nvrtc().log_size, nvrtc().log));
    return text("nvrtcGetCUBIN", nvrtc().code_size, nvrtc().code);
  }

 private:
  std::string text(const char* call, nvrtcResult (*size)(nvrtcProgram, size_t*),
                   nvrtcResult (*get)(nvrtcProgram, char*)) const {
    size_t bytes = 0;
    check_nvrtc(size(program_, &bytes), call);
    std::string result(bytes, '\0');
    check_nvrtc(get(program_, result.data()), call);
    return result;
  }

  nvrtcProgram program_ = nullptr;
};

std::vector<std::string> options_for(Device device) {
  int major = 0, minor = 0;
  WICK_CUDA_CALL(cudaDeviceGetAttribute, &major, cudaDevAttrComputeCapabilityMajor, device.index);
  WICK_CUDA_CALL(cudaDeviceGetAttribute, &minor, cudaDevAttrComputeCapabilityMinor, device.index);
  return {"--std=c++20", "--device-as-default-execution-space", "-DWICK_RUNTIME_COMPILED=1",
          concat("--gpu-architecture=sm_", major, minor)};
}

// The key of the machine code.
std::string key_of(const std::string& source, const std::vector<std::string>& options) {
  int major = 0, minor = 0;
  check_nvrtc(nvrtc().version(&major, &minor), "nvrtcVersion");
  std::string all = concat("wick ", WICK_VERSION, " nvrtc ", major, ".", minor, "\n");
  for (const std::string& option : options) all += option + "\n";
  for (const auto* headers : {&runtime_headers(), &standard_headers()}) {
    for (const RuntimeHeader& header : *headers) all += concat(header.name, "\n", header.text);
  }
  return kernel_key(all + source);
}

}  // namespace

std::string machine_code(Device device, const std::string& source) {
  const std::vector<std::string> options = options_for(device);
  const std::string key = key_of(source, options);
  std::string code = read_kernel(key);
  if (code.empty()) {
    code = Program(source).compile(options);
    keep_kernel(key, code);
  }
  return code;
}

const CompiledKernel* compile_kernel(Device device, const char* name, const std::string& source,
                                     std::string& why_not) {
  static std::mutex mutex;
  static auto* const kept = new std::map<std::string, CompiledKernel>;  // outlives static objects
  const std::lock_guard lock(mutex);
  CompiledKernel& kernel = (*kept)[concat(device.index, " ", name, "\n", source)];
  if (kernel.function != nullptr) return &kernel;
  kernel.device = device;
  enter_device(device);
  const AllowInCapture allow;
  if (kernel.module == nullptr) {
    std::string code;
    try {
      code = machine_code(device, source);
    } catch (const DeviceError&) {
      throw;
    } catch (const Error& error) {
      why_not = error.what();
      return nullptr;
    }
    check_driver(driver().load(&kernel.module, code.data()), "cuModuleLoadData");
  }
  check_driver(driver().find(&kernel.function, kernel.module, name), "cuModuleGetFunction");
  return &kernel;
}

void launch_compiled(const char* name, const CompiledKernel& kernel, unsigned blocks,
                     unsigned threads, const void* argument) {
  const cudaStream_t stream = enter_device(kernel.device);
  const profile::KernelScope scope(name, kernel.device, stream);
  void* arguments[] = {const_cast<void*>(argument)};
  check_driver(
      driver().launch(kernel.function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr),
      name);
}

}  // namespace wick::cuda
