#include "wick/tests/onnx/cases.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "wick/tests/harness/paths.h"

namespace wick::testing {

namespace {
std::string folder() {
  const char* given = std::getenv("WICK_ONNX_CASES");
  return given != nullptr ? given : source_folder() + "/tests/onnx/cases";
}
}  // namespace

std::vector<std::string> onnx_case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string onnx_case(const std::string& name) { return folder() + "/" + name; }

}  // namespace wick::testing
