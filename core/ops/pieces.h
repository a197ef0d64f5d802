#pragma once

#include <vector>

#include "wick/core/tensor.h"

// Tensors in pieces, and copies with one piece replaced, through which gradients flow to both.

namespace wick {

/// x in `sections` views along `axis`, the first ones larger by one where it does not come out.
std::vector<Tensor> tensor_split(const Tensor& x, int64_t sections, int64_t axis = 0);
/// Views that begin at 0 and at each of `starts`, which count from the end where negative.
std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<int64_t>& starts,
                                 int64_t axis = 0);
/// tensor_split along axis 1 (of vectors 0), axis 0 and axis 2; `sections` must divide the size.
std::vector<Tensor> hsplit(const Tensor& x, int64_t sections);
std::vector<Tensor> hsplit(const Tensor& x, const std::vector<int64_t>& starts);
std::vector<Tensor> vsplit(const Tensor& x, int64_t sections);
std::vector<Tensor> vsplit(const Tensor& x, const std::vector<int64_t>& starts);
std::vector<Tensor> dsplit(const Tensor& x, int64_t sections);
std::vector<Tensor> dsplit(const Tensor& x, const std::vector<int64_t>& starts);

/// A copy of x with x.slice(axis, start, stop, step) replaced by `source`, of that shape.
Tensor slice_scatter(const Tensor& x, const Tensor& source, int64_t axis = 0, int64_t start = 0,
                     int64_t stop = INT64_MAX, int64_t step = 1);
/// A copy of x with x.select(axis, index) replaced.
Tensor select_scatter(const Tensor& x, const Tensor& source, int64_t axis, int64_t index);
/// A copy of x with x.diagonal(offset, axis0, axis1) replaced.
Tensor diagonal_scatter(const Tensor& x, const Tensor& source, int64_t offset = 0,
                        int64_t axis0 = 0, int64_t axis1 = 1);

}  // namespace wick
