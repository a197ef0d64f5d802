#pragma once

#include <string>

namespace wick::cpu {

/// "oneDNN 2.6.3": what convolutions run on.
std::string math_library();

/// Tells the library how many threads calls from this thread may use: num_threads().
void set_library_threads();

}  // namespace wick::cpu
