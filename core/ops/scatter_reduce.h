#pragma once

#include "wick/core/tensor.h"

// More ways to write to places that indices name. What index.h says of indices holds here too.

namespace wick {

/// `x` with slice k of `source` along `axis` in place of slice index[k].
Tensor index_copy(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);
/// `x` with `value` in the slices along `axis` that `index` names.
Tensor index_fill(const Tensor& x, int64_t axis, const Tensor& index, Scalar value);
/// scatter of one number.
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, Scalar value);

/// What scatter_reduce makes of the elements that come to one place.
enum class ScatterReduction : uint8_t { kSum, kProd, kMean, kAmax, kAmin };

/// The elements of `source` that `index` sends to a place along `axis`, reduced to one, together
/// with what `x` holds there if `include_self`; x where none comes. Shapes as for scatter. At ties
/// of kAmax and kAmin all get an equal part of the gradient. Means of integers are rounded down.
Tensor scatter_reduce(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                      ScatterReduction reduction, bool include_self = true);

/// scatter_reduce of the slices of `source` along `axis`: slice k comes to slice index[k].
Tensor index_reduce(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                    ScatterReduction reduction, bool include_self = true);

/// The elements of `x`, counted in row-major order, that `index` names, from the end where it is
/// negative; in index's shape.
Tensor take(const Tensor& x, const Tensor& index);
/// The inverse of take: `x` with the elements that `index` names replaced by those of `source`, in
/// index's shape, or with `accumulate` added to.
Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false);
/// `x` with x[indices[0][i], indices[1][i], ...] = values[i], or += values[i] with `accumulate`.
/// The indices of the first axes of x broadcast to each other. `values` broadcast to what the
/// indices name. Negative indices count from the end. A bool mask stands for the places where it
/// is set, one index for each of its axes; its size waits for the device.
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                 bool accumulate = false);
/// `x` with the elements where the bool `mask` is set replaced by the first elements of `source`,
/// in row-major order. The mask broadcasts to x. Error where `source` has fewer, which waits for
/// the device.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

}  // namespace wick
