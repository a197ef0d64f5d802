// Feeds arbitrary bytes to the decoders of JPEG and PNG: whatever they are, the result is an image
// or an Error.
#include <cstdint>

#include "wick/core/base/check.h"
#include "wick/data/image_io.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static wick::data::Image image;
  try {
    wick::data::decode_image({data, size}, "input", image);
  } catch (const wick::Error&) {
  }
  return 0;
}
