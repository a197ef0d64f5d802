#pragma once

#include "wick/kernels/declare.h"

namespace wick {

/// y[o, k, i] = x[o, 0, i] + ... + x[o, k, i], or with `reverse` x[o, k, i] + ... + x[o, n - 1, i].
/// Contiguous [outer, n, inner] of one dtype but bool. Sums of floating types are kept in double.
WICK_KERNEL(cumulative_sum, (const View& x, const View& y, bool reverse));

/// y[o, k, i] = x[o, 0, i] * ... * x[o, k, i], likewise.
WICK_KERNEL(cumulative_product, (const View& x, const View& y));

/// dx of the cumulative product: dx[k] = sum over j >= k of dy[j] * (product of x[0..j] without
/// x[k]), also where x is zero. Floating, contiguous [outer, n, inner].
WICK_KERNEL(cumulative_product_backward, (const View& x, const View& dy, const View& dx));

}  // namespace wick
