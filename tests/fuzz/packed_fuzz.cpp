// Feeds arbitrary bytes to the reader of packed files: whatever they are, it opens them and reads
// every image, or throws Error.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/data/detail/packed_format.h"
#include "wick/data/packed.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void read_all(const wick::data::ImageSource& source) {
  std::string buffer;
  wick::data::Image image;
  const int64_t count = std::min<int64_t>(source.size(), 50);
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (source.label(i) >= static_cast<int64_t>(source.class_names().size())) std::abort();
    const wick::data::StoredImage stored = source.read(i, buffer);
    for (const uint8_t byte : stored.bytes) sum += byte;
    if (stored.channels > 0) {
      const auto bytes = stored.size.height * stored.size.width * stored.channels;
      if (static_cast<int64_t>(stored.bytes.size()) != bytes) std::abort();
      continue;
    }
    try {
      wick::data::decode_image(stored.bytes, source.name(i), image);
    } catch (const wick::Error&) {
    }
  }
  asm volatile("" : : "r"(sum));  // so that the bytes are read
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("input", 0);
  static const std::string path = wick::concat("/proc/self/fd/", descriptor);
  std::vector<uint8_t> bytes(data, data + size);
  // Or else no input of another length than its parent's would get past the first check.
  constexpr size_t kPlace = offsetof(wick::data::packed::Header, file_bytes);
  const auto promised = static_cast<uint64_t>(size);
  if (size >= kPlace + sizeof promised && bytes[size - 1] % 8 != 0) {
    std::memcpy(bytes.data() + kPlace, &promised, sizeof promised);
  }
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, bytes.data(), size, 0) != static_cast<ssize_t>(size)) {
    std::abort();
  }
  try {
    const auto file = wick::data::PackedFile::open(path);
    const wick::data::LabelledImages images = file->images();
    read_all(*images.train);
    read_all(*images.test);
    file->check_content();
  } catch (const wick::Error&) {
  }
  return 0;
}
