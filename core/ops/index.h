#pragma once

#include <optional>

#include "wick/core/tensor.h"

// Indices are int64 or int32 tensors. On the CPU they are checked: one out of range is an error
// that names it. On a GPU, where only waiting for it would show them, the kernel checks them. One
// out of range ends the kernel with a device-side assertion, "index out of range". The next call
// that waits for the GPU throws DeviceError, and the process can then use it no more.
//
// Where two indices name one place, the later one wins or is added later: results have the same
// bits for any number of threads.

namespace wick {

/// The slices of `x` along `axis` that the one-axis `index` names, in its order.
Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index);

/// `x` with slice k of `source` along `axis` added to slice index[k].
Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);

/// y[i, j, k] = x[i, index[i, j, k], k] for axis 1, and so on: `index` has as many axes as `x` and,
/// but for `axis`, no larger sizes; rank 0 counts as one axis. Returns index's shape.
Tensor gather(const Tensor& x, int64_t axis, const Tensor& index);

/// The inverse of gather: `x` with y[i, index[i, j, k], k] = source[i, j, k] for axis 1.
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);

/// As scatter, but adds to what `x` holds there.
Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);

/// As gather, with the other axes of `x` and `index` broadcast to each other. Negative indices
/// count from the end.
Tensor take_along_axis(const Tensor& x, const Tensor& index, int64_t axis);

/// Row index[i, ...] of `weight` [rows, width] for each index: shape [index..., width]. The row
/// `padding_idx` gets no gradient. With `sparse` the gradient of `weight` holds only the rows that
/// were read (core/sparse_rows.h): for large tables, where most rows are not.
Tensor embedding(const Tensor& weight, const Tensor& index, std::optional<int64_t> padding_idx = {},
                 bool sparse = false);

/// The coordinates of the elements that are not zero: int64 [count, rank], in row-major order.
/// Waits for the device.
Tensor nonzero(const Tensor& x);

/// The elements of `x` where the bool `mask` is set, in row-major order; both are broadcast to each
/// other. Waits for the device.
Tensor masked_select(const Tensor& x, const Tensor& mask);

/// int64 [index..., classes] of zeros with a one at each index. By default as many classes as the
/// largest index asks for.
Tensor one_hot(const Tensor& index, int64_t classes = -1);

}  // namespace wick
