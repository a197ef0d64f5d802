// Feeds arbitrary bytes to the decoders of JPEG and PNG, for the whole image and for a window of
// it: whatever they are, the result is an image or an Error, and a window that only cuts is that
// part of the whole.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "wick/core/base/check.h"
#include "wick/core/base/philox.h"
#include "wick/data/image_io.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using namespace wick::data;

Rect random_rect(ImageSize size, wick::PhiloxStream& random) {
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.below(static_cast<uint32_t>(n)));
  };
  Rect rect;
  rect.top = below(size.height);
  rect.left = below(size.width);
  rect.size = {1 + below(size.height - rect.top), 1 + below(size.width - rect.left)};
  return rect;
}

void check_part(const Image& whole, const Rect& part, const Image& got) {
  for (int64_t y = 0; y < part.size.height; ++y) {
    const uint8_t* want =
        &whole.pixels[static_cast<size_t>(((part.top + y) * whole.width + part.left) * 3)];
    const auto bytes = static_cast<size_t>(part.size.width * 3);
    if (std::memcmp(want, &got.pixels[static_cast<size_t>(y) * bytes], bytes) != 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Image whole, part;
  const std::string name = "input";
  try {
    ImageDecoder decoder({data, size}, name);
    wick::PhiloxStream random(size, data[size / 2]);
    Window window{random_rect(decoder.size(), random), {}, {}};
    window.size = random.below(2) == 0 ? window.source.size : ImageSize{17, 13};
    window.kept = random_rect(window.size, random);
    decoder.decode(whole);
    ImageDecoder(std::span(data, size), name).decode(window, part);
    if (!(window.size == window.source.size)) return 0;
    check_part(whole,
               {window.source.top + window.kept.top, window.source.left + window.kept.left,
                window.kept.size},
               part);
  } catch (const wick::Error&) {
  }
  return 0;
}
