#include "wick/train/hardware.h"

#include <sched.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "wick/core/base/check.h"

namespace wick::train {

namespace {

// The value of the first "key : value" line of a file under /proc; empty if there is none.
std::string proc_value(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int64_t usable_memory() {
  struct sysinfo info {};
  sysinfo(&info);
  int64_t bytes = static_cast<int64_t>(info.totalram) * info.mem_unit;
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  int64_t group = 0;
  if (limit >> group && group > 0) bytes = std::min(bytes, group);
  return bytes;
}

}  // namespace

bool Hardware::has(const std::string& feature) const {
  return std::find(isa.begin(), isa.end(), feature) != isa.end();
}

Hardware find_hardware() {
  Hardware found;
  found.cpu_name = proc_value("/proc/cpuinfo", "model name");
  if (found.cpu_name.empty()) found.cpu_name = "unknown CPU";
  found.cores = usable_cores();
  found.memory_bytes = usable_memory();
  const std::string flags = " " + proc_value("/proc/cpuinfo", "flags") + " ";
  for (const char* name : {"avx2", "fma", "f16c", "avx512f", "avx512_bf16", "amx_bf16"}) {
    if (flags.find(concat(" ", name, " ")) == std::string::npos) continue;
    found.isa.emplace_back(std::string(name) == "avx512f" ? "avx512" : name);
  }
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ..."
  const std::string module = proc_value("/proc/driver/nvidia/version", "NVRM version");
  for (size_t at = 0; at < module.size();) {
    const size_t end = std::min(module.find(' ', at), module.size());
    const std::string word = module.substr(at, end - at);
    const bool number = std::count(word.begin(), word.end(), '.') >= 1 &&
                        word.find_first_not_of("0123456789.") == std::string::npos;
    if (number && found.nvidia_driver.empty()) found.nvidia_driver = word;
    at = end + 1;
  }
  std::error_code error;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    found.gpus.push_back(proc_value(gpu.path().string() + "/information", "Model"));
  }
  return found;
}

std::string one_line(const Hardware& hardware) {
  std::string features;
  for (const char* name : {"avx2", "avx512", "avx512_bf16", "amx_bf16"}) {
    if (hardware.has(name)) features += concat(" ", name);
  }
  std::string gpus;
  for (const std::string& gpu : hardware.gpus) gpus += (gpus.empty() ? "" : ", ") + gpu;
  char gigabytes[32];
  std::snprintf(gigabytes, sizeof gigabytes, "%.1f GB",
                static_cast<double>(hardware.memory_bytes) / 1e9);
  return concat(hardware.cpu_name, ", ", hardware.cores, " core", hardware.cores == 1 ? "" : "s",
                features.empty() ? "" : ",", features, ", ", gigabytes, "; ",
                gpus.empty() ? "no GPU" : gpus);
}

}  // namespace wick::train
