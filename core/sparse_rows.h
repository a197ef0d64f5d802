#pragma once

#include "wick/core/tensor.h"

namespace wick {

/// A gradient of a table [rows, width] of which few rows are not zero: row rows[i] is values[i].
/// What PyTorch keeps as a coalesced sparse tensor.
struct SparseRows {
  Tensor rows;    // int64 [n], ascending, no two equal
  Tensor values;  // [n, width]
};

/// The tensor of `shape` [rows, width] that has values[i] added to row rows[i], in this order, and
/// zeros elsewhere. rows int64 [n], with repetitions; values [n, width]. Waits for the device. What
/// comes of it knows its rows alone: it can be the gradient of a leaf, and Tensor::to_dense() makes
/// an ordinary tensor of it; operations refuse it.
Tensor sparse_tensor(const Tensor& rows, const Tensor& values, const Shape& shape);

/// The rows of a sparse tensor. Error for a dense one.
const SparseRows& sparse_rows(const Tensor& x);

// For the engine and what works on gradients.

/// The elements of a gradient that may not be zero, in memory: all, or those of its rows.
Tensor gradient_elements(const Tensor& gradient);
/// The sum of two gradients of a tensor: sparse if both are.
Tensor sum_of_gradients(const Tensor& a, const Tensor& b);
/// Drops the gradient of a leaf, or with `set_to_none = false` makes it zeros: of a sparse one, one
/// without rows.
void zero_gradient(const Tensor& leaf, bool set_to_none);

}  // namespace wick
