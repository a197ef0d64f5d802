#pragma once

#include "wick/core/tensor.h"

// Which values there are, how often, and where they belong in an order. unique, unique_consecutive,
// bincount and histc wait for the device.

namespace wick {

/// Different values, and of each element of x which of them it is and how often each comes.
struct Unique {
  Tensor values;
  Tensor inverse;  // int64, x's shape
  Tensor counts;   // int64, values' shape
};

/// The different values of x, in order. Each NaN is one of its own.
Unique unique(const Tensor& x);
/// One value for each run of equal elements, in row-major order.
Unique unique_consecutive(const Tensor& x);
/// The same of slices along `axis`, compared element by element: their order is that of the first
/// elements in which they differ. `inverse` has the size of the axis.
Unique unique(const Tensor& x, int64_t axis);
Unique unique_consecutive(const Tensor& x, int64_t axis);
/// Whether each element is one of `values`, or with `invert` is none; bool, x's shape.
Tensor isin(const Tensor& x, const Tensor& values, bool invert = false);
/// nonzero, by NumPy's name.
Tensor argwhere(const Tensor& x);
/// The coordinates in `shape` of places counted in row-major order: a tensor for each axis. Error
/// on the CPU for a place outside.
std::vector<Tensor> unravel_index(const Tensor& places, const Shape& shape);

/// How often each number from 0 on comes among the integers x [N], of none below 0; as many as
/// `minlength` or the largest asks for. With `weights` [N] the sums of those: float64, or float32
/// of float32.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0);

/// How many elements of the last axis of `sorted`, which is in order, are below each value (or,
/// with `right`, not above it): the place to insert it at. `sorted` is a vector, or agrees with
/// `values` on all axes but the last. int64, in values' shape.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);
/// searchsorted in a vector of boundaries.
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right = false);

/// How many elements of floating x lie in each of `bins` equal parts of [low, high], the last of
/// which includes its end: x's dtype. With low = high the range is that of x.
Tensor histc(const Tensor& x, int64_t bins = 100, double low = 0, double high = 0);

}  // namespace wick
