#include "wick/data/image_io.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "wick/core/base/check.h"
#include "wick/core/file.h"

namespace wick::data {

namespace {

constexpr int kMostScans = 100;

// What one byte of a file stands for at best: in a JPEG, Huffman codes spend a bit or more on each
// 8x8 block; in a PNG, deflate reaches 1032 to 1 over rows of 8 pixels a byte.
constexpr int64_t kMostJpegPixelsPerByte = 8 * 64;
constexpr int64_t kMostPngPixelsPerByte = 8 * 1032;

void check_size(const std::string& name, int64_t height, int64_t width, size_t bytes,
                int64_t most_per_byte) {
  WICK_CHECK(height <= kMostPixels / width, name, ": image too large: got ", height, " x ", width,
             " pixels, expected at most ", kMostPixels, " in all");
  WICK_CHECK(height * width / most_per_byte <= static_cast<int64_t>(bytes), name,
             ": damaged image: its header promises ", height, " x ", width,
             " pixels, expected fewer in a file of ", bytes, " bytes");
}

// Makes `image` an RGB image of that size, and returns its number of pixels.
size_t allocate(Image& image, int64_t height, int64_t width) {
  image.height = height;
  image.width = width;
  image.channels = 3;
  image.pixels.resize(static_cast<size_t>(height * width * 3));
  return static_cast<size_t>(height * width);
}

// The scans of a JPEG, counted without decoding: each costs the decoder a pass over all blocks.
int count_scans(std::span<const uint8_t> jpeg) {
  int scans = 0;
  size_t i = 2;  // past the start-of-image marker
  while (i + 3 < jpeg.size()) {
    const uint8_t marker = jpeg[i + 1];
    const bool in_scan_data = jpeg[i] != 0xff || marker == 0x00 || marker == 0xff;
    const bool stands_alone = marker >= 0xd0 && marker <= 0xd8;
    if (in_scan_data) {
      ++i;
    } else if (stands_alone) {
      i += 2;
    } else if (marker == 0xd9) {
      break;
    } else {
      scans += marker == 0xda;
      i += 2 + (size_t{jpeg[i + 2]} << 8 | jpeg[i + 3]);
    }
  }
  return scans;
}

struct TurboCloser {
  void operator()(void* handle) const { tjDestroy(handle); }
};

// CMYK as photographs have it: Adobe stores ink inverted, 255 for none.
void inverted_cmyk_to_rgb(const std::vector<uint8_t>& cmyk, std::vector<uint8_t>& rgb) {
  for (size_t p = 0; 4 * p < cmyk.size(); ++p) {
    for (size_t c = 0; c < 3; ++c) {
      rgb[3 * p + c] = static_cast<uint8_t>((cmyk[4 * p + c] * cmyk[4 * p + 3] + 127) / 255);
    }
  }
}

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, Image& image) {
  // One decoder per image: one that met a damaged image may fail on the next.
  const std::unique_ptr<void, TurboCloser> decoder(tjInitDecompress());
  WICK_CHECK(decoder != nullptr, name, ": the JPEG decoder could not start");
  tjhandle tj = decoder.get();
  const auto size = static_cast<unsigned long>(bytes.size());
  int width = 0, height = 0, subsampling = 0, colorspace = 0;
  WICK_CHECK(
      tjDecompressHeader3(tj, bytes.data(), size, &width, &height, &subsampling, &colorspace) == 0,
      name, ": damaged JPEG: ", tjGetErrorStr2(tj));
  WICK_CHECK(width > 0 && height > 0, name, ": damaged JPEG: it has no image size");
  check_size(name, height, width, bytes.size(), kMostJpegPixelsPerByte);
  const int scans = count_scans(bytes);
  WICK_CHECK(scans <= kMostScans, name, ": too many JPEG scans: got ", scans, ", expected at most ",
             kMostScans);
  const size_t pixels = allocate(image, height, width);
  const bool inks = colorspace == TJCS_CMYK || colorspace == TJCS_YCCK;
  std::vector<uint8_t> cmyk(inks ? pixels * 4 : 0);
  const int status = tjDecompress2(tj, bytes.data(), size, inks ? cmyk.data() : image.pixels.data(),
                                   width, 0, height, inks ? TJPF_CMYK : TJPF_RGB, 0);
  if (status != 0) {
    // Some cameras leave bytes between segments: harmless, and the pixels are whole.
    const std::string_view text = tjGetErrorStr2(tj);
    const bool harmless = tjGetErrorCode(tj) == TJERR_WARNING &&
                          text.find("extraneous bytes before marker") != std::string_view::npos;
    WICK_CHECK(harmless, name, ": damaged JPEG: ", text);
  }
  if (inks) inverted_cmyk_to_rgb(cmyk, image.pixels);
}

struct PngImage : png_image {
  PngImage() : png_image() { version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(this); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

void decode_png(std::span<const uint8_t> bytes, const std::string& name, Image& image) {
  PngImage png;
  WICK_CHECK(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) != 0, name,
             ": damaged PNG: ", png.message);
  check_size(name, png.height, png.width, bytes.size(), kMostPngPixelsPerByte);
  const size_t pixels = allocate(image, png.height, png.width);
  const bool transparent = (png.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  std::vector<uint8_t> rgba(transparent ? pixels * 4 : 0);
  png.format = transparent ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  WICK_CHECK(png_image_finish_read(&png, nullptr, transparent ? rgba.data() : image.pixels.data(),
                                   0, nullptr) != 0,
             name, ": damaged PNG: ", png.message);
  for (size_t p = 0; 4 * p < rgba.size(); ++p) {
    std::copy_n(&rgba[4 * p], 3, &image.pixels[3 * p]);
  }
}

}  // namespace

void decode_image(std::span<const uint8_t> bytes, const std::string& name, Image& image) {
  constexpr uint8_t kJpeg[] = {0xff, 0xd8, 0xff};
  constexpr uint8_t kPng[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  const auto starts_with = [&](std::span<const uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (starts_with(kJpeg)) return decode_jpeg(bytes, name, image);
  if (starts_with(kPng)) return decode_png(bytes, name, image);
  detail::fail(name, ": not an image that can be read: got ", bytes.size(),
               " bytes, expected a JPEG or a PNG");
}

void read_image(const std::string& path, Image& image) {
  const std::string bytes = read_file(path, kMostImageBytes);
  decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path, image);
}

}  // namespace wick::data
