#pragma once

#include "wick/kernels/declare.h"

// Indices are int64. On the CPU the op has checked them; on a GPU, where only waiting would show
// them to the host, the kernel ends with an error that says so if one is out of range. Where two
// indices name one place, their order decides, whatever the number of threads.

namespace wick {

/// y[o, k, :] = x[o, index[k], :], zeros where index[k] is `skip` (-1: none). x [outer, n, inner],
/// index [count], y [outer, count, inner]; all contiguous, x and y of any one dtype.
WICK_KERNEL(index_select, (const View& x, const View& index, const View& y, int64_t skip));

/// y[o, index[k], :] += x[o, k, :], nothing where index[k] is `skip`. Shapes as for index_select;
/// float64, float32 or an integer dtype.
WICK_KERNEL(index_add, (const View& y, const View& index, const View& x, int64_t skip));

/// y[i] = x[i with its coordinate on `axis` replaced by index[i]] for each i of index; any strides.
WICK_KERNEL(gather, (const View& x, const View& index, const View& y, int axis));

/// y[i with its coordinate on `axis` replaced by index[i]] = x[i] for each i of index; any strides.
WICK_KERNEL(scatter, (const View& y, const View& index, const View& x, int axis));

/// As scatter, but adds; float64, float32 or an integer dtype.
WICK_KERNEL(scatter_add, (const View& y, const View& index, const View& x, int axis));

/// Elements of a mask that are counted together.
inline constexpr int64_t kNonzeroChunk = 4096;

/// starts (int64, one more than there are chunks): how many elements of the contiguous bool `mask`
/// are set before each chunk, and last, in all.
WICK_KERNEL(count_nonzero, (const View& mask, const View& starts));

/// y [count, rank]: the coordinates of the set elements of `mask`, in order, with what
/// count_nonzero made of it.
WICK_KERNEL(nonzero, (const View& mask, const View& starts, const View& y));

/// y = x where column - row >= diagonal (`upper`) or <= diagonal (else), zero elsewhere.
/// Contiguous [matrices, rows, columns], any one dtype.
WICK_KERNEL(triangle, (const View& x, const View& y, int64_t diagonal, bool upper));

}  // namespace wick
