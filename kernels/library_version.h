#pragma once

#include <string>

namespace wick::cpu {

/// "oneDNN 2.6.3": what convolutions and matrix products run on.
std::string math_library();

}  // namespace wick::cpu
