// Feeds arbitrary bytes to the safetensors reader: whatever they are, it reads them or throws
// Error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "wick/core/serialize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("input", 0);
  static const std::string path = wick::concat("/proc/self/fd/", descriptor);
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) {
    std::abort();
  }
  try {
    wick::TextMap metadata;
    wick::load_safetensors(path, &metadata);
  } catch (const wick::Error&) {
  }
  return 0;
}
