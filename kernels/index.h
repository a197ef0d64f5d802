#pragma once

#include "wick/kernels/declare.h"

// Indices are int64 and were checked by the op. Where two indices name one place, their order
// decides, whatever the number of threads.

namespace wick {

/// y[o, k, :] = x[o, index[k], :], zeros where index[k] < 0. x [outer, n, inner], index [count],
/// y [outer, count, inner]; all contiguous, x and y of any one dtype.
WICK_KERNEL(index_select, (const View& x, const View& index, const View& y));

/// y[o, index[k], :] += x[o, k, :], nothing where index[k] < 0. Shapes as for index_select;
/// float64, float32 or an integer dtype.
WICK_KERNEL(index_add, (const View& y, const View& index, const View& x));

/// y[i] = x[i with its coordinate on `axis` replaced by index[i]] for each i of index; any strides.
WICK_KERNEL(gather, (const View& x, const View& index, const View& y, int axis));

/// y[i with its coordinate on `axis` replaced by index[i]] = x[i] for each i of index; any strides.
WICK_KERNEL(scatter, (const View& y, const View& index, const View& x, int axis));

/// As scatter, but adds; float64, float32 or an integer dtype.
WICK_KERNEL(scatter_add, (const View& y, const View& index, const View& x, int axis));

/// count[0] = how many elements of the contiguous bool `mask` are set.
WICK_KERNEL(count_nonzero, (const View& mask, const View& count));

/// y [count, rank]: the coordinates of the set elements of the contiguous bool `mask`, in order.
WICK_KERNEL(nonzero, (const View& mask, const View& y));

/// y = x where column - row >= diagonal (`upper`) or <= diagonal (else), zero elsewhere.
/// Contiguous [matrices, rows, columns], any one dtype.
WICK_KERNEL(triangle, (const View& x, const View& y, int64_t diagonal, bool upper));

}  // namespace wick
