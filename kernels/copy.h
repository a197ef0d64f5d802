#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// y = x, converted to y's dtype; x's shape broadcasts to y's. The two may have any strides but not
/// overlap (unless they are the same).
WICK_KERNEL(copy, (const View& x, const View& y));

/// Every element of y becomes `real`, or `integer` where y is of an integer dtype.
WICK_KERNEL(fill, (const View& y, double real, int64_t integer));

/// Element i of the contiguous y becomes start + i * step, or first + i * by where y is of an
/// integer dtype.
WICK_KERNEL(arange, (const View& y, double start, double step, int64_t first, int64_t by));

}  // namespace wick
