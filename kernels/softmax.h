#pragma once

#include "wick/kernels/declare.h"

// All views: of one floating dtype, dense, with the same strides.
namespace wick {

/// y = exp(x) / sum of exp(x) along `axis`.
WICK_KERNEL(softmax_forward, (const View& x, const View& y, int axis));
/// dx = (dy - sum of dy * y along `axis`) * y.
WICK_KERNEL(softmax_backward, (const View& dy, const View& y, const View& dx, int axis));
/// y = x - log(sum of exp(x) along `axis`).
WICK_KERNEL(log_softmax_forward, (const View& x, const View& y, int axis));
/// dx = dy - exp(y) * sum of dy along `axis`.
WICK_KERNEL(log_softmax_backward, (const View& dy, const View& y, const View& dx, int axis));

}  // namespace wick
