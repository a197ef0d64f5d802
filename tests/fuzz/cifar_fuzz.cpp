// Feeds arbitrary bytes to the reader of CIFAR's binary files: whatever they are, it reads them or
// throws Error. The first byte chooses the set and, mostly, a whole number of records.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/data/cifar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

struct TemporaryFolder {
  std::string path = (std::filesystem::temp_directory_path() / "wick-XXXXXX").string();
  TemporaryFolder() {
    if (mkdtemp(path.data()) == nullptr) std::abort();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryFolder folder;
  if (size < 1) return 0;
  const bool hundred = (data[0] & 1) != 0;
  std::vector<uint8_t> bytes(data + 1, data + size);
  if (data[0] % 8 != 0) bytes.resize(size_t{data[0] / 64u} * (hundred ? 3074 : 3073));
  const std::string path = folder.path + (hundred ? "/test.bin" : "/test_batch.bin");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  try {
    const auto read = hundred ? wick::data::read_cifar100 : wick::data::read_cifar10;
    const wick::data::ImageSet set = read(folder.path, wick::data::Split::kTest);
    for (const uint8_t label : set.labels) {
      if (label >= set.class_names.size()) std::abort();
    }
    if (set.pixels.size() != set.labels.size() * 3072) std::abort();
  } catch (const wick::Error&) {
  }
  return 0;
}
