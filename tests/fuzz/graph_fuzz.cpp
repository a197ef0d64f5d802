// Feeds arbitrary bytes to the reader of graphs, beside constants that are in order: whatever they
// are, it reads them or throws Error.
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "wick/core/create.h"
#include "wick/core/graph/graph.h"
#include "wick/core/serialize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::string prepared_path() {
  const std::string folder = std::filesystem::temp_directory_path() / "wick_graph_fuzz_XXXXXX";
  std::string name = folder;
  if (mkdtemp(name.data()) == nullptr) std::abort();
  const std::string path = name + "/graph.json";
  wick::save_safetensors(path + ".safetensors", {{"constant.1", wick::ones({3, 2})}});
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = prepared_path();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const wick::graph::Graph graph = wick::graph::load(path);
    to_string(graph);
    to_dot(graph);
  } catch (const wick::Error&) {
  }
  return 0;
}
