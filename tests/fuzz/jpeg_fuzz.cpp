// Feeds arbitrary bytes to the decoder of JPEGs, for the whole image and for a window of it.
#include "wick/tests/fuzz/decode_both.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  wick::fuzz::decode_both({data, size});
  return 0;
}
