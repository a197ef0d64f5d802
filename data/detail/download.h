#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace wick::data {

struct Download {
  std::string url;
  std::string path;    // of the file; until it is whole and right it is PATH.part
  std::string sha256;  // 64 digits
  uint64_t bytes = 0;  // 0: not known
  int stall_seconds = 30;
  std::function<void(uint64_t)> progress = {};  // bytes so far
};

/// Makes the file, unless it is there with that hash. An error says what curl says.
void download(const Download& wanted);

}  // namespace wick::data
