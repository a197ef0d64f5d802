#pragma once

#include <fcntl.h>

namespace wick::tool {

/// Opens /dev/null for those of standard input, output and error that the process was started
/// without: a file opened later would be one of them, and get what is printed. Writing to standard
/// output stays an error. To be called before anything is opened.
inline void open_standard_files() {
  constexpr int kModes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    // The lowest that is free is the one that open() gives.
    if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", kModes[descriptor]));
  }
}

}  // namespace wick::tool
