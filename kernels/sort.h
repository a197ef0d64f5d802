#pragma once

#include "wick/core/base/workspace.h"
#include "wick/kernels/declare.h"

// NaN counts as greater than every number, -0 as equal to 0, and equal elements keep their order.

namespace wick {

/// Each row of x sorted: `values` and the `indices` (int64) they had. Contiguous [rows, n].
/// Workspace: 32 bytes per element, on the CPU of one row per thread.
WICK_KERNEL(sort_rows, (const View& x, const View& values, const View& indices, bool descending,
                        Workspace& workspace));

/// The k largest (or smallest) of each row, the best first. x [rows, n], values and indices
/// [rows, k], k <= kMaxTopk; contiguous.
WICK_KERNEL(topk_rows, (const View& x, const View& values, const View& indices, bool largest));
inline constexpr int64_t kMaxTopk = 64;

}  // namespace wick
