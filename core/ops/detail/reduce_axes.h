#pragma once

#include "wick/core/tensor.h"
#include "wick/kernels/reduce.h"

// What the files of reductions share.
namespace wick {

/// `axes` counted from the front, in order; all of them for an empty list.
Shape reduced_axes(const char* op, const Tensor& x, const Shape& axes);

/// `shape` with size 1 along `axes`.
Shape kept_shape(const Shape& shape, const Shape& axes);

/// How many elements of `shape` make one of the result.
int64_t reduced_count(const Shape& shape, const Shape& axes);

/// `factor` times the reduction of x, in `dtype`; see the kernel. `center`: float64, of the shape
/// that has size 1 along `axes`. Not recorded: for the forward of ops.
Tensor reduce_axes(Reduction kind, const Tensor& x, const Shape& axes, bool keepdim, Dtype dtype,
                   double factor = 1, const Tensor& center = {});

/// A result or its gradient, with or without keepdim, broadcast back over `shape`.
Tensor spread(const Tensor& y, const Shape& shape, const Shape& axes);

/// Error unless x is floating.
void check_floating(const char* op, const Tensor& x);

}  // namespace wick
