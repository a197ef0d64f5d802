#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <string>
#include <thread>

#include "wick/core/base/parallel.h"
#include "wick/kernels/declare.h"
#include "wick/kernels/library_version.h"
#include "wick/tools/wick/commands.h"
#include "wick/tools/wick/hardware.h"

namespace wick::tool {

namespace {

void line(bool good, const std::string& what, const std::string& found,
          const std::string& cost = "") {
  fmt::print("  {} {:<12} {}\n", good ? "yes" : "no ", what, found);
  if (!good && !cost.empty()) fmt::print("      {}\n", cost);
}

// The file a shared library is loaded from, or empty.
std::string find_library(const char* name) {
  void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return "";
  dlclose(handle);
  return name;
}

void show_cpu(const Hardware& hardware) {
  fmt::print("CPU: {}\n", hardware.cpu_name);
  line(hardware.has("avx2") && hardware.has("fma") && hardware.has("f16c"), "AVX2",
       "AVX2, FMA and F16C", "this program needs an x86-64-v3 processor");
  line(hardware.has("avx512"), "AVX-512",
       cpu_isa() == CpuIsa::kAvx512 ? "used by the hand-written kernels and by oneDNN"
                                    : "not used: kernels run their AVX2 form",
       "costs up to half the speed of convolutions and matrix products; set by the processor");
  line(hardware.has("avx512_bf16") || hardware.has("amx_bf16"), "bfloat16",
       hardware.has("amx_bf16") ? "in matrix units (AMX)" : "in vector units (AVX-512 BF16)",
       "mixed precision on this CPU saves memory but no time");
  line(true, "threads",
       fmt::format("{} of {} cores; --threads or OMP_NUM_THREADS sets it", num_threads(),
                   hardware.cores));
  line(true, "memory", fmt::format("{:.1f} GB", static_cast<double>(hardware.memory_bytes) / 1e9));
  line(true, "libraries", cpu::math_library());
}

void show_gpu(const Hardware& hardware) {
  fmt::print("GPU:\n");
#ifdef WICK_HAS_CUDA
  constexpr bool kBuilt = true;
#else
  constexpr bool kBuilt = false;
#endif
  line(kBuilt, "build", kBuilt ? "with CUDA" : "without CUDA (WICK_GPU=off)", "runs go to the CPU");
  std::string names;
  for (const std::string& gpu : hardware.gpus) names += (names.empty() ? "" : ", ") + gpu;
  line(!hardware.gpus.empty(), "device", names.empty() ? "none" : names,
       "no NVIDIA GPU is visible to the kernel driver: runs go to the CPU");
  line(!hardware.nvidia_driver.empty(), "driver",
       hardware.nvidia_driver.empty() ? "none" : hardware.nvidia_driver,
       "install NVIDIA's driver, 580 or later for CUDA 13");
  struct Library {
    const char* label;
    const char* file;
    const char* cost;
  };
  for (const Library& library :
       {Library{"CUDA driver", "libcuda.so.1", "comes with the driver"},
        Library{"cuBLASLt", "libcublasLt.so.13", "matrix products on a GPU need it"},
        Library{"cuDNN", "libcudnn.so.9", "convolutions on a GPU need it"},
        Library{"NCCL", "libnccl.so.2", "training on several GPUs needs it"}}) {
    const std::string found = find_library(library.file);
    line(!found.empty(), library.label, found.empty() ? "not found" : found, library.cost);
  }
}

void show_limits() {
  fmt::print("Limits:\n");
  const auto show = [](const char* what, int resource) {
    rlimit limit{};
    getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
    line(true, what,
         limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit.rlim_cur));
  };
  show("open files", RLIMIT_NOFILE);
  show("locked bytes", RLIMIT_MEMLOCK);
  show("file size", RLIMIT_FSIZE);
}

}  // namespace

void add_doctor(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand(
      "doctor", "Tells what this machine and this build have, and what each missing thing costs");
  sub->callback([&command] {
    command = [] {
      const Hardware hardware = find_hardware();
      show_cpu(hardware);
      show_gpu(hardware);
      show_limits();
      return 0;
    };
  });
}

}  // namespace wick::tool
