#pragma once

#include "wick/kernels/declare.h"

// NaN counts as greater than every number, -0 as equal to 0, and equal elements keep their order.

namespace wick {

/// Each row of x sorted: `values` and the `indices` (int64) they had. Contiguous [rows, n].
/// `scratch` (int64, [workers, 4 * n]) bounds how many rows are sorted at once.
WICK_KERNEL(sort_rows, (const View& x, const View& values, const View& indices, const View& scratch,
                        bool descending));

/// The k largest (or smallest) of each row, the best first. x [rows, n], values and indices
/// [rows, k], k <= kMaxTopk; contiguous.
WICK_KERNEL(topk_rows, (const View& x, const View& values, const View& indices, bool largest));
inline constexpr int64_t kMaxTopk = 64;

}  // namespace wick
