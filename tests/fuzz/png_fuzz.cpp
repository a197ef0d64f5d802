// Feeds arbitrary bytes to the decoder of PNGs, for the whole image and for a window of it. Mostly
// the checksums of chunks are made right first: or else the decoder would refuse nearly all.
#include <zlib.h>

#include <vector>

#include "wick/tests/fuzz/decode_both.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void mend_checksums(std::vector<uint8_t>& bytes) {
  constexpr size_t kAround = 12;  // length, type, checksum
  size_t at = 8;                  // past the signature
  while (at + kAround <= bytes.size()) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | bytes[at + i];
    if (length > bytes.size() - at - kAround) return;
    const uLong sum = crc32(0, &bytes[at + 4], static_cast<uInt>(length + 4));
    at += kAround + length;
    for (size_t i = 0; i < 4; ++i) bytes[at - 4 + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  if (size > 0 && bytes.back() % 16 != 0) mend_checksums(bytes);
  wick::fuzz::decode_both(bytes);
  return 0;
}
