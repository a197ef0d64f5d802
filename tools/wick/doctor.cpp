#include <fmt/core.h>
#include <sys/resource.h>
#include <CLI/CLI.hpp>

#include <string>
#include <thread>

#include "wick/core/base/detail/dynamic_library.h"
#include "wick/core/base/parallel.h"
#include "wick/core/stream.h"
#include "wick/dist/detail/nccl.h"
#include "wick/dist/flight_log.h"
#include "wick/kernels/declare.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/wick/commands.h"
#include "wick/train/device.h"
#include "wick/train/hardware.h"
#include "wick/train/nan_finder.h"
#include "wick/train/run_folder.h"

namespace wick::tool {

namespace {

void line(bool good, const std::string& what, const std::string& found,
          const std::string& cost = "") {
  fmt::print("  {} {:<12} {}\n", good ? "yes" : "no ", what, found);
  if (!good && !cost.empty()) fmt::print("      {}\n", cost);
}

void show_cpu(const train::Hardware& hardware) {
  fmt::print("CPU: {}\n", hardware.cpu_name);
  line(hardware.has("avx2") && hardware.has("fma") && hardware.has("f16c"), "AVX2",
       "AVX2, FMA and F16C", "this program needs an x86-64-v3 processor");
  line(hardware.has("avx512"), "AVX-512",
       cpu_isa() == CpuIsa::kAvx512 ? "used by the kernels"
                                    : "not used: kernels run their AVX2 form",
       "costs up to half the speed of convolutions and matrix products; set by the processor");
  line(hardware.has("avx512_bf16") || hardware.has("amx_bf16"), "bfloat16",
       hardware.has("amx_bf16") ? "in matrix units (AMX)" : "in vector units (AVX-512 BF16)",
       "mixed precision on this CPU saves memory but no time");
  line(true, "threads",
       fmt::format("{} of {} cores; --threads or OMP_NUM_THREADS sets it", num_threads(),
                   hardware.cores));
  line(true, "memory", fmt::format("{:.1f} GB", static_cast<double>(hardware.memory_bytes) / 1e9));
}

// "9.19.0" of 91900, as cuDNN and cuBLAS count; empty where the library does not tell.
std::string library_version(const char* file, const char* function) {
  try {
    size_t (*version)() = nullptr;
    DynamicLibrary(file, file).find(version, function);
    const size_t number = version();
    return fmt::format(", version {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  } catch (const Error&) {
    return "";
  }
}

void show_nccl() {
  const std::string file = find_library("libnccl.so.2");
  std::string found = file.empty() ? "not found" : file, version;
  try {
    version = dist::nccl_version();
    if (!file.empty()) found = fmt::format("{}, version {}", file, version);
  } catch (const Error& error) {
    if (!file.empty()) found += fmt::format(" ({})", error.what());
  }
  line(!file.empty() && !version.empty(), "NCCL", found,
       "GPUs of several ranks exchange tensors through the host's memory without it");
}

void show_gpu(const train::Hardware& hardware) {
  fmt::print("GPU:\n");
#ifdef WICK_HAS_CUDA
  constexpr bool kBuilt = true;
#else
  constexpr bool kBuilt = false;
#endif
  line(kBuilt, "build", kBuilt ? "with CUDA" : "without CUDA (WICK_GPU=off)", "runs go to the CPU");
  for (int i = 0; i < cuda_device_count(); ++i) {
    const DeviceProperties gpu = device_properties(cuda_device(i));
    line(!gpu.simulated, to_string(cuda_device(i)),
         fmt::format("{}, compute capability {}.{}, {:.1f} GB{}", gpu.name, gpu.major, gpu.minor,
                     static_cast<double>(gpu.total_memory) / 1e9,
                     gpu.simulated ? ", simulated" : ""),
         "a simulated GPU shows that programs are right, and has no speed: runs go to the CPU");
  }
  if (!cuda_is_available()) line(false, "device", why_no_cuda(), "runs go to the CPU");
  std::string names;
  for (const std::string& gpu : hardware.gpus) names += (names.empty() ? "" : ", ") + gpu;
  line(!hardware.gpus.empty(), "hardware", names.empty() ? "none" : names,
       "no NVIDIA GPU is visible to the kernel driver");
  std::string why_cpu;
  const Device chosen = train::choose_device("auto", &why_cpu);
  line(chosen.is_cuda(), "auto device", "goes to " + to_string(chosen), why_cpu);
  line(!hardware.nvidia_driver.empty(), "driver",
       hardware.nvidia_driver.empty() ? "none" : hardware.nvidia_driver,
       "install NVIDIA's driver, 580 or later for CUDA 13");
  struct Library {
    const char* label;
    const char* file;
    const char* cost;
    const char* version;  // the function that tells it, if there is one
  };
  for (const Library& library :
       {Library{"CUDA driver", "libcuda.so.1", "comes with the driver", nullptr},
        Library{"cuBLASLt", "libcublasLt.so.13", "matrix products on a GPU need it",
                "cublasLtGetVersion"},
        Library{"cuDNN", "libcudnn.so.9", "convolutions on a GPU need it", "cudnnGetVersion"}}) {
    std::string found = find_library(library.file);
    if (!found.empty() && library.version != nullptr) {
      found += library_version(library.file, library.version);
    }
    line(!found.empty(), library.label, found.empty() ? "not found" : found, library.cost);
  }
  show_nccl();
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

int report_flight(const std::string& folder) {
  const auto [logs, rejected] = dist::read_flight_logs(folder);
  fmt::print("{} ranks, {} records\n", logs[0].size, logs.size());
  for (const std::string& problem : rejected) fmt::print("  {}\n", problem);
  for (const dist::FlightLog& log : logs) {
    fmt::print("  rank {}: {} done, {} asked for{}{}\n", log.rank, log.last_done(),
               log.last_asked(), log.failure.empty() ? "" : "; ", log.failure);
  }
  const dist::FlightVerdict verdict = dist::find_desync(logs);
  fmt::print("{}: {}\n", verdict.ranks.empty() ? "nobody to blame" : "to blame", verdict.why);
  return 0;
}

int report_nan(const std::string& run_dir, const std::string& device) {
  const auto folder = train::RunFolder::open(run_dir);
  train::Recipe recipe = train::resolve(train::recipe_from_json(folder.config_file()));
  recipe.run.device = device;
  const train::NanSearch search = train::find_first_nan(run_dir, recipe);
  if (!search.found) {
    fmt::print("steps {} to {} of {}: no NaN\n", search.first_step, search.last_step, run_dir);
    return 0;
  }
  fmt::print("step {} of {} (batch {} of epoch {}): {}\n", search.found->step, run_dir,
             search.found->batch, search.found->epoch, search.found->text);
  return kDivergedExit;
}

}  // namespace

void add_doctor(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand(
      "doctor", "Tells what this machine and this build have, and what each missing thing costs");
  auto flight = std::make_shared<std::string>();
  CLI::Option* option = sub->add_option(
      "--flight", *flight, "folder with flight-*.json: tells which rank made the others fail");
  auto run = std::make_shared<std::string>(), device = std::make_shared<std::string>("auto");
  CLI::Option* nan = sub->add_option(
      "--nan", *run,
      "run that diverged: repeats its steps since the newest checkpoint with checks "
      "on, and names the first operation that gave NaN");
  nan->excludes(option);
  sub->add_option("--device", *device, "device that repeats the steps of --nan: auto, cpu or cuda");
  sub->callback([&command, flight, option, run, device, nan] {
    command = [flight, option, run, device, nan] {
      if (option->count() > 0) return report_flight(*flight);
      if (nan->count() > 0) return report_nan(*run, *device);
      const train::Hardware hardware = train::find_hardware();
      show_cpu(hardware);
      show_gpu(hardware);
      show_limits();
      return 0;
    };
  });
}

}  // namespace wick::tool
