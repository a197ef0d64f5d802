#pragma once

#include <vector>

#include "wick/dist/process_group.h"

namespace wick::dist {

/// Writes the reduction of `parts`, one of each rank, to `result`: in the order of the ranks, so
/// that whoever does it gets the same bits; 16-bit floats in float32, rounded once. All of one
/// shape and dtype; `result` shares no memory with them, and they may lie on other devices.
void reduce_parts(const std::vector<Tensor>& parts, ReduceOp op, const Tensor& result);

/// The elements of a dense tensor in the order of memory, as one axis.
Tensor flat(const Tensor& x);

/// What flat() undoes: the elements `part`, as one axis, in the shape and layout of `like`.
Tensor in_layout_of(const Tensor& part, const Tensor& like);

}  // namespace wick::dist
