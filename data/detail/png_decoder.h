#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "wick/data/image_io.h"

namespace wick::data {

/// A PNG whose header has been read. Errors begin with `name`; both arguments must live as long.
class PngDecoder {
 public:
  PngDecoder(std::span<const uint8_t> bytes, const std::string& name);
  ~PngDecoder();
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  ImageSize size() const;
  /// Decodes all of it into RGB, once per decoder. Values are as they are stored (the upper of 16
  /// bits), whatever the file says about colour; transparency is dropped.
  void decode(Image& image);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace wick::data
