#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace wick::tool {

/// Whether `descriptor` is a terminal that can redraw a line and show colours, by what TERM says.
inline bool is_drawable(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) == 1 && (term == nullptr || std::string(term) != "dumb");
}

}  // namespace wick::tool
