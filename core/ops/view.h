#pragma once

#include <vector>

#include "wick/core/tensor.h"

// Views share the memory of the tensor they are made from and allocate nothing. Most are members of
// Tensor: reshape, permute, narrow, ...

namespace wick {

/// Axis `axis` cut into axes of `sizes`, one of which may be -1: [N, 6] -> [N, 2, 3]. Error unless
/// their product is the axis' size.
Tensor unflatten(const Tensor& x, int64_t axis, const Shape& sizes);

/// Neighbouring parts of `sizes` along `axis`. Error unless the sizes add up to the axis' size.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis = 0);

/// Elements whose index along `axis1` is that along `axis0` plus `offset`, as a new last axis in
/// place of both: [N, 3, 4] -> [N, 3] for axes 1 and 2.
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t axis0 = 0, int64_t axis1 = 1);

/// A tensor of `shape` filled with `value`, in which `x` stands at `start`, its elements `step`
/// apart; all three with one entry per axis of x. Error if x reaches beyond `shape`.
Tensor place(const Tensor& x, const Shape& shape, const Shape& start, const Shape& step,
             double value = 0);

}  // namespace wick
