#pragma once

#include <algorithm>
#include <string>

#include "wick/core/ops/detail/image_format.h"

// How descriptions of layers write sizes.
namespace wick::nn {

/// "3", or "3x2" where they differ.
inline std::string sizes_text(const Shape& sizes) {
  const bool alike =
      std::all_of(sizes.begin(), sizes.end(), [&](int64_t s) { return s == sizes[0]; });
  std::string text;
  for (const int64_t size : alike && !sizes.empty() ? Shape{sizes[0]} : sizes) {
    text += (text.empty() ? "" : "x") + std::to_string(size);
  }
  return text;
}

/// ", name=sizes" unless all are as usual.
inline std::string option_text(const char* name, const Shape& sizes, int64_t usual) {
  const bool plain = std::all_of(sizes.begin(), sizes.end(), [&](int64_t s) { return s == usual; });
  return plain ? "" : concat(", ", name, "=", sizes_text(sizes));
}

}  // namespace wick::nn
