#pragma once

#include <vector>

#include "wick/core/tensor.h"

// Parts of a tensor, as views. Most are members of Tensor: narrow, select, slice, chunk, ...

namespace wick {

/// Neighbouring parts of `sizes` along `axis`. Error unless the sizes add up to the axis' size.
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis = 0);

/// The slices along `axis`, without that axis.
std::vector<Tensor> unbind(const Tensor& x, int64_t axis = 0);

/// Elements whose index along `axis1` is that along `axis0` plus `offset`, as a new last axis in
/// place of both: [N, 3, 4] -> [N, 3] for axes 1 and 2.
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t axis0 = 0, int64_t axis1 = 1);

/// A tensor of `shape` filled with `value`, in which `x` stands at `start`, its elements `step`
/// apart; all three with one entry per axis of x. Error if x reaches beyond `shape`.
Tensor place(const Tensor& x, const Shape& shape, const Shape& start, const Shape& step,
             double value = 0);

}  // namespace wick
