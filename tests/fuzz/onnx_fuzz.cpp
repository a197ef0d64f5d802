// Feeds arbitrary bytes to the reader of ONNX models, beside a file of external data that is in
// order: whatever they are, it makes a module of them or throws Error.
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "wick/onnx/onnx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::string prepared_path() {
  std::string name = std::filesystem::temp_directory_path() / "wick_onnx_fuzz_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  std::ofstream(name + "/weights.bin", std::ios::binary) << std::string(64, '\1');
  return name + "/model.onnx";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = prepared_path();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    wick::nn::Handle<wick::onnx::Module> net = wick::onnx::load(path);
    net->state_dict();
    net->train().to(wick::kFloat64);
  } catch (const wick::Error&) {
  }
  return 0;
}
