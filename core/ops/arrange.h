#pragma once

#include <vector>

#include "wick/core/tensor.h"

// Axes added, dropped and exchanged, and elements turned, repeated and joined. What view.h,
// slice.h and join.h do for one axis is done here for several, or under another name.

namespace wick {

/// Without those of `axes` that have size 1; a view.
Tensor squeeze(const Tensor& x, const Shape& axes);
/// Axes of size 1 where `axes`, places in the result, say; a view.
Tensor unsqueeze(const Tensor& x, const Shape& axes);
/// transpose, by NumPy's name.
Tensor swapaxes(const Tensor& x, int64_t axis0, int64_t axis1);
/// Elements moved by shifts[i] places along axes[i].
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes);
/// Elements moved as if all were one axis.
Tensor roll(const Tensor& x, int64_t shift);
/// Turned by 90 degrees `times` times, from the first of two axes to the second.
Tensor rot90(const Tensor& x, int64_t times = 1, const Shape& axes = {0, 1});
/// flip of axis 1, and of axis 0.
Tensor fliplr(const Tensor& x);
Tensor flipud(const Tensor& x);

/// The diagonal of a matrix, or the matrix with the vector x as diagonal `offset` and 0 elsewhere.
Tensor diag(const Tensor& x, int64_t offset = 0);
/// Matrices whose diagonals are the last axis of x, at two new axes.
Tensor diag_embed(const Tensor& x, int64_t offset = 0, int64_t axis0 = -2, int64_t axis1 = -1);
/// The matrix with all elements of x as diagonal `offset`.
Tensor diagflat(const Tensor& x, int64_t offset = 0);
/// The matrices (vectors are rows) as blocks along a diagonal, 0 elsewhere, in their common dtype.
Tensor block_diag(const std::vector<Tensor>& matrices);
/// The sum of a matrix' diagonal.
Tensor trace(const Tensor& x);

/// repeat, where missing numbers in front are 1.
Tensor tile(const Tensor& x, const Shape& times);
/// The tensors joined along axis 1 (vectors: 0), axis 0 (vectors are rows), and axis 2.
Tensor hstack(const std::vector<Tensor>& tensors);
Tensor vstack(const std::vector<Tensor>& tensors);
Tensor dstack(const std::vector<Tensor>& tensors);
/// As hstack, with vectors as columns.
Tensor column_stack(const std::vector<Tensor>& tensors);
/// x with at least 1, 2 or 3 axes: new ones come in front, of a matrix the third at the end.
Tensor atleast_1d(const Tensor& x);
Tensor atleast_2d(const Tensor& x);
Tensor atleast_3d(const Tensor& x);
/// x summed over what it would take to broadcast `shape` to x: the reverse of expand.
/// Sums of bool and of narrow integers are int64.
Tensor sum_to_size(const Tensor& x, const Shape& shape);
/// The tensors expanded to the shape that they broadcast to.
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
/// Rows of all choices of `length` elements of the vector x in its order, each as often as it is
/// there, or `with_replacement` any number of times.
Tensor combinations(const Tensor& x, int64_t length = 2, bool with_replacement = false);
/// Rows of all choices of one element of each vector, the last changing fastest.
Tensor cartesian_prod(const std::vector<Tensor>& vectors);

}  // namespace wick
