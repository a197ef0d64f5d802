#pragma once

#include <cstdint>

namespace wick {

/// What a matrix product can be followed by in the same pass. kGeluTanh is GELU's approximation by
/// tanh, the one that cuBLASLt has.
enum class Activation : uint8_t { kNone, kRelu, kGeluTanh };

}  // namespace wick
