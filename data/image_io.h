#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace wick::data {

/// An image: pixel (y, x, c) is `pixels[(y * width + x) * channels + c]`.
struct Image {
  int64_t height = 0, width = 0, channels = 3;
  std::vector<uint8_t> pixels;
};

/// Height and width in pixels; 0 where a transform of unlike images leaves it open.
struct ImageSize {
  int64_t height = 0, width = 0;
  friend bool operator==(const ImageSize& a, const ImageSize& b) {
    return a.height == b.height && a.width == b.width;
  }
};

/// A part of an image, in pixels.
struct Rect {
  int64_t top = 0, left = 0;
  ImageSize size;
};

/// Cutting and resizing in one: the part `source` of an image is resized to `size`, and the part
/// `kept` of that is the result.
struct Window {
  Rect source;
  ImageSize size;
  Rect kept;
};

/// What an image may take; what takes more is an error.
struct ImageLimits {
  int64_t pixels = int64_t{64} << 20;  // found out before memory is allocated for them
  double seconds = 2;                  // of processor time to decode it; 0: any
};
/// Sets them for all images that this process decodes from now on. Error for pixels that are not 1
/// to 2^40, or a negative time.
void set_image_limits(const ImageLimits& limits);
ImageLimits image_limits();

/// Image files of more bytes are not read.
inline constexpr uint64_t kMostImageBytes = uint64_t{256} << 20;

/// A JPEG or a PNG, told apart by the first bytes, whose header has been read and checked. Errors
/// begin with `name`: another format, damaged or cut-off data, more than image_limits(), more
/// pixels than so few bytes can hold, a progressive JPEG of more than 100 scans (of fewer where the
/// image is large). Both arguments must live as long.
class ImageDecoder {
 public:
  ImageDecoder(std::span<const uint8_t> bytes, const std::string& name);
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  /// The size that the header gives.
  ImageSize size() const;
  /// Decodes into RGB. The memory of `image` is reused. Grey becomes RGB, CMYK is converted,
  /// transparency is dropped. Only one decoding per decoder.
  void decode(Image& image);
  /// The same, cut and resized to `window`: what decoding and resizing the whole gives, with one
  /// exception. A JPEG that shrinks to a half, a quarter or an eighth or less is decoded at that
  /// size and resized from there. That is sharper: on the average by 2.5 of 255 at most in the
  /// tests, at single pixels by 70. What is not needed is not decoded where the format allows, so
  /// that damage there goes unseen.
  void decode(const Window& window, Image& image);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Decodes all of a JPEG or PNG, as ImageDecoder does.
void decode_image(std::span<const uint8_t> bytes, const std::string& name, Image& image);

/// Reads and decodes the JPEG or PNG file `path` (of at most 256 MB).
void read_image(const std::string& path, Image& image);

}  // namespace wick::data
