// Feeds arbitrary bytes to the reader of tar archives: whatever they are, it unpacks the members
// asked for or throws Error, and writes nothing else. Mostly the checksums of headers are made
// right first: or else it would refuse nearly all.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/data/detail/tar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;
constexpr size_t kBlock = 512, kSize = 124, kSum = 148, kSumBytes = 8;

// In memory, where files are quick to sync.
struct TemporaryFolder {
  std::string path = fs::is_directory("/dev/shm") ? "/dev/shm/wick-XXXXXX" : "/tmp/wick-XXXXXX";
  TemporaryFolder() {
    if (mkdtemp(path.data()) == nullptr) std::abort();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

void mend_checksums(std::vector<uint8_t>& bytes) {
  for (size_t at = 0; at + kBlock <= bytes.size();) {
    uint8_t* const block = &bytes[at];
    std::fill_n(block + kSum, kSumBytes, uint8_t{' '});
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += block[i];
    std::snprintf(reinterpret_cast<char*>(block + kSum), kSumBytes, "%06o", sum);
    char digits[12];
    std::copy_n(block + kSize, 11, digits);
    digits[11] = '\0';
    const size_t length = std::strtoull(digits, nullptr, 8);  // "-1000" is nearly 2^64
    if (length > bytes.size()) return;
    at += kBlock + (length + kBlock - 1) / kBlock * kBlock;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryFolder parent;
  static const int descriptor = memfd_create("input", 0);
  static const std::string path = wick::concat("/proc/self/fd/", descriptor);
  const std::string folder = parent.path + "/folder";
  fs::create_directory(folder);
  std::vector<uint8_t> bytes(data, data + size);
  if (size > 0 && bytes.back() % 16 != 0) mend_checksums(bytes);
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, bytes.data(), size, 0) != static_cast<ssize_t>(size)) {
    std::abort();
  }
  try {
    wick::data::unpack_tar(path, folder, {"a", "b/c"});
  } catch (const wick::Error&) {
  }
  for (const auto& entry : fs::recursive_directory_iterator(parent.path)) {
    const std::string name = entry.path().string().substr(parent.path.size());
    const bool wanted =
        name == "/folder" || name == "/folder/a" || name == "/folder/b" || name == "/folder/b/c";
    if (!wanted || entry.is_symlink()) std::abort();
  }
  fs::remove_all(folder);
  return 0;
}
