#pragma once

#include "wick/kernels/declare.h"

// All views: of one floating dtype, dense, with the same strides.
namespace wick {

/// y = exp(x) / sum of exp(x) along `axis`, or the logarithm of that.
WICK_KERNEL(softmax_forward, (const View& x, const View& y, int axis, bool log));
/// dx = (dy - sum of dy * y along `axis`) * y; of the logarithm dx = dy - exp(y) * sum of dy.
WICK_KERNEL(softmax_backward, (const View& dy, const View& y, const View& dx, int axis, bool log));

}  // namespace wick
