#pragma once

#include <cstdint>

#include "wick/core/base/shape.h"

// Arithmetic on sizes that come from outside: an error that names `op` where plain arithmetic would
// overflow.
namespace wick {

/// No tensor has more elements: 2^58, so that the bytes of any dtype, and sums of a few strides,
/// fit 63 bits.
inline constexpr int64_t kMaxNumel = int64_t{1} << 58;

int64_t checked_add(const char* op, int64_t a, int64_t b);
int64_t checked_mul(const char* op, int64_t a, int64_t b);

/// The elements of `shape`. Error for negative sizes, and for sizes that multiply to more than
/// kMaxNumel, where a size of 0 counts as 1 (strides must fit too).
int64_t checked_numel(const char* op, const Shape& shape);

}  // namespace wick
