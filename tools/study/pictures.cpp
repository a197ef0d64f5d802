#include "wick/tools/study/pictures.h"

#include <png.h>

#include <algorithm>

#include "wick/core/base/check.h"
#include "wick/data/transforms.h"
#include "wick/tools/study/base64.h"

namespace wick::study {

std::string png_link(const data::Image& image, int64_t most) {
  data::Image small;
  const int64_t longest = std::max(image.height, image.width);
  if (longest > most) {
    const auto shrunk = [&](int64_t side) { return std::max<int64_t>(1, side * most / longest); };
    data::resize(image, 0, 0, {image.height, image.width},
                 {shrunk(image.height), shrunk(image.width)}, small);
  }
  const data::Image& source = longest > most ? small : image;
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(source.width);
  png.height = static_cast<png_uint_32>(source.height);
  png.format = source.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  const auto write = [&](void* memory) {
    return png_image_write_to_memory(&png, memory, &size, 0, source.pixels.data(), 0, nullptr);
  };
  WICK_CHECK(write(nullptr) != 0, "report: cannot make a PNG: ", png.message);
  std::string bytes(size, '\0');
  WICK_CHECK(write(bytes.data()) != 0, "report: cannot make a PNG: ", png.message);
  return "data:image/png;base64," +
         base64(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<size_t>(size));
}

}  // namespace wick::study
