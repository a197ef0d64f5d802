#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wick::train {

/// What this machine has that training speed depends on.
struct Hardware {
  std::string cpu_name;
  int cores = 0;                  // that this process may use
  int64_t memory_bytes = 0;       // of the machine, or of this process's control group if less
  std::vector<std::string> isa;   // of avx2, f16c, fma, avx512, avx512_bf16, amx_bf16
  std::string nvidia_driver;      // version, or empty
  std::vector<std::string> gpus;  // names by the driver

  /// Whether `isa` lists `feature`, such as "avx2".
  bool has(const std::string& feature) const;
};

/// Asks the operating system; no GPU is used.
Hardware find_hardware();

/// "AMD EPYC, 2 cores, avx2 avx512 avx512_bf16, 24.6 GB; no GPU"
std::string one_line(const Hardware& hardware);

}  // namespace wick::train
