#include "wick/data/image_io.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/data/detail/jpeg.h"
#include "wick/data/detail/png_decoder.h"
#include "wick/data/transforms.h"

namespace wick::data {

namespace {

// What one byte of a file stands for at best: in a JPEG, Huffman codes spend a bit or more on each
// 8x8 block; in a PNG, deflate reaches 1032 to 1 over rows of 8 pixels a byte.
constexpr int64_t kMostJpegPixelsPerByte = 8 * 64;
constexpr int64_t kMostPngPixelsPerByte = 8 * 1032;

void check_size(const std::string& name, ImageSize size, size_t bytes, int64_t most_per_byte) {
  WICK_CHECK(size.height > 0 && size.width > 0, name, ": damaged image: it has no size");
  const int64_t most = image_limits().pixels;
  WICK_CHECK(size.height <= most / size.width, name, ": image too large: got ", size.height, " x ",
             size.width, " pixels, expected at most ", most, " in all");
  WICK_CHECK(size.height * size.width / most_per_byte <= static_cast<int64_t>(bytes), name,
             ": damaged image: its header promises ", size.height, " x ", size.width,
             " pixels, expected fewer in a file of ", bytes, " bytes");
}

// The pixels that `count` of `output` pixels, from `first` on, are made of when `extent` pixels
// from `begin` on are resized to `output`: the first and one past the last, of `pixels`.
std::pair<int64_t, int64_t> drawn_on(double begin, double extent, int64_t output, int64_t first,
                                     int64_t count, int64_t pixels) {
  const double scale = extent / static_cast<double>(output), support = std::max(scale, 1.0) + 1;
  const double low = begin + static_cast<double>(first) * scale - support;
  const double high = begin + static_cast<double>(first + count) * scale + support;
  return {std::max<int64_t>(0, static_cast<int64_t>(std::floor(std::max(low, begin)))),
          std::min(pixels, static_cast<int64_t>(std::ceil(std::min(high, begin + extent))))};
}

// The largest reduction of a JPEG that leaves the window no smaller than what it is resized to.
int reduction_for(const Window& window) {
  int reduction = 1;
  while (reduction < 8 && window.source.size.height >= 2 * reduction * window.size.height &&
         window.source.size.width >= 2 * reduction * window.size.width) {
    reduction *= 2;
  }
  return reduction;
}

Image& scratch_image() {
  thread_local Image scratch;
  return scratch;
}

// Cuts and resizes what was decoded of an image to the `window` of it: `source` is the part `made`
// of the image reduced to 1 / `reduction`.
void finish(const Window& window, int reduction, const Rect& made, const Image& source,
            Image& image) {
  if (window.source.size == window.size && reduction == 1) {
    crop(source, window.source.top + window.kept.top - made.top,
         window.source.left + window.kept.left - made.left, window.kept.size, image);
    return;
  }
  const auto reduced = [&](int64_t length) { return static_cast<double>(length) / reduction; };
  const Box box{reduced(window.source.top) - static_cast<double>(made.top),
                reduced(window.source.left) - static_cast<double>(made.left),
                reduced(window.source.size.height), reduced(window.source.size.width)};
  resize(source, box, window.size, window.kept, image);
}

void check_window(const Window& window, ImageSize size) {
  const auto inside = [](const Rect& part, ImageSize whole) {
    return part.top >= 0 && part.left >= 0 && part.size.height > 0 && part.size.width > 0 &&
           part.size.height <= whole.height && part.top <= whole.height - part.size.height &&
           part.size.width <= whole.width && part.left <= whole.width - part.size.width;
  };
  WICK_CHECK(inside(window.source, size) && inside(window.kept, window.size),
             "image decoder: window outside the image of ", size.height, " x ", size.width);
}

}  // namespace

struct ImageDecoder::State {
  std::optional<JpegDecoder> jpeg;  // or else
  std::optional<PngDecoder> png;
};

ImageDecoder::ImageDecoder(std::span<const uint8_t> bytes, const std::string& name)
    : state_(std::make_unique<State>()) {
  constexpr uint8_t kJpeg[] = {0xff, 0xd8, 0xff};
  constexpr uint8_t kPng[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  const auto starts_with = [&](std::span<const uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (starts_with(kJpeg)) {
    state_->jpeg.emplace(bytes, name);
  } else if (starts_with(kPng)) {
    state_->png.emplace(bytes, name);
  } else {
    detail::fail(name, ": not an image that can be read: got ", bytes.size(),
                 " bytes, expected a JPEG or a PNG");
  }
  check_size(name, size(), bytes.size(),
             state_->jpeg ? kMostJpegPixelsPerByte : kMostPngPixelsPerByte);
}

ImageDecoder::~ImageDecoder() = default;

ImageSize ImageDecoder::size() const {
  return state_->jpeg ? state_->jpeg->size() : state_->png->size();
}

void ImageDecoder::decode(Image& image) {
  if (state_->jpeg) {
    state_->jpeg->decode(1, {0, 0, size()}, image);
  } else {
    state_->png->decode(image);
  }
}

void ImageDecoder::decode(const Window& window, Image& image) {
  check_window(window, size());
  const bool all =
      window.source.size == size() && window.size == size() && window.kept.size == size();
  if (all) return decode(image);
  Image& scratch = scratch_image();
  if (state_->png) {
    state_->png->decode(scratch);
    return finish(window, 1, {0, 0, size()}, scratch, image);
  }
  const int reduction = reduction_for(window);
  const ImageSize whole = state_->jpeg->size(reduction);
  const auto reduced = [&](int64_t length) { return static_cast<double>(length) / reduction; };
  const auto [top, bottom] =
      drawn_on(reduced(window.source.top), reduced(window.source.size.height), window.size.height,
               window.kept.top, window.kept.size.height, whole.height);
  const auto [left, right] =
      drawn_on(reduced(window.source.left), reduced(window.source.size.width), window.size.width,
               window.kept.left, window.kept.size.width, whole.width);
  const Rect part{top, left, {bottom - top, right - left}};
  const Rect made = state_->jpeg->decode(reduction, part, scratch);
  finish(window, reduction, made, scratch, image);
}

void decode_image(std::span<const uint8_t> bytes, const std::string& name, Image& image) {
  ImageDecoder(bytes, name).decode(image);
}

void read_image(const std::string& path, Image& image) {
  const std::string bytes = read_file(path, kMostImageBytes);
  decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path, image);
}

}  // namespace wick::data
