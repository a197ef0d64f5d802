#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wick/data/image_io.h"

namespace wick::data {

/// A JPEG whose header has been read and checked. Errors begin with `name`; both arguments must
/// live as long.
class JpegDecoder {
 public:
  JpegDecoder(std::span<const uint8_t> bytes, const std::string& name);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  ImageSize size() const;
  /// The size reduced to 1 / `reduction`, 1, 2, 4 or 8, of each side, rounded up.
  ImageSize size(int reduction) const;
  /// Decodes the part `part` of the reduced image, once per decoder. Returns which part `out` has
  /// become: some columns more, since they come in blocks. The pixels of `part` are those that
  /// decoding the whole gives.
  Rect decode(int reduction, const Rect& part, Image& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// `image`, of 3 channels, as a JPEG of quality 1 to 100.
std::vector<uint8_t> encode_jpeg(const Image& image, int quality);

}  // namespace wick::data
