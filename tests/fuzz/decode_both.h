#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "wick/core/base/check.h"
#include "wick/core/base/philox.h"
#include "wick/data/image_io.h"

namespace wick::fuzz {

inline data::Rect random_rect(data::ImageSize size, PhiloxStream& random) {
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.below(static_cast<uint32_t>(n)));
  };
  data::Rect rect;
  rect.top = below(size.height);
  rect.left = below(size.width);
  rect.size = {1 + below(size.height - rect.top), 1 + below(size.width - rect.left)};
  return rect;
}

inline void check_part(const data::Image& whole, const data::Rect& part, const data::Image& got) {
  for (int64_t y = 0; y < part.size.height; ++y) {
    const uint8_t* want =
        &whole.pixels[static_cast<size_t>(((part.top + y) * whole.width + part.left) * 3)];
    const auto bytes = static_cast<size_t>(part.size.width * 3);
    if (std::memcmp(want, &got.pixels[static_cast<size_t>(y) * bytes], bytes) != 0) std::abort();
  }
}

/// Decodes all of an image and a window of it. Whatever the bytes are, the result is an image or an
/// Error, and a window that only cuts is that part of the whole.
inline void decode_both(std::span<const uint8_t> bytes) {
  static data::Image whole, part;
  const std::string name = "input";
  try {
    data::ImageDecoder decoder(bytes, name);
    PhiloxStream random(bytes.size(), bytes[bytes.size() / 2]);
    data::Window window{random_rect(decoder.size(), random), {}, {}};
    window.size = random.below(2) == 0 ? window.source.size : data::ImageSize{17, 13};
    window.kept = random_rect(window.size, random);
    decoder.decode(whole);
    data::ImageDecoder(bytes, name).decode(window, part);
    if (!(window.size == window.source.size)) return;
    check_part(whole,
               {window.source.top + window.kept.top, window.source.left + window.kept.left,
                window.kept.size},
               part);
  } catch (const Error&) {
  }
}

}  // namespace wick::fuzz
