// Feeds arbitrary bytes to the IDX reader, which unpacks gzip: whatever they are, it reads them or
// throws Error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "wick/core/base/check.h"
#include "wick/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("input", 0);
  static const std::string path = wick::concat("/proc/self/fd/", descriptor);
  if (size < 1 || ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, data + 1, size - 1, 0) != static_cast<ssize_t>(size - 1)) {
    return 0;
  }
  try {
    wick::data::read_idx(path, data[0] % 4 + 1);
  } catch (const wick::Error&) {
  }
  return 0;
}
