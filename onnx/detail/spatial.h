#pragma once

#include "wick/onnx/detail/call.h"

// What convolutions and poolings share.
namespace wick::onnx::detail {

/// Margins of the axes that a window moves along.
struct Margins {
  Shape before, after;
  bool is_even() const { return before == after; }
};

/// Attributes pads and auto_pad of a window of `kernel` over the last axes of `x`.
Margins margins_of(const Call& call, const Tensor& x, const Shape& kernel, const Shape& stride,
                   const Shape& dilation);
/// `x` with the margins, filled with `value`.
Tensor with_margins(const Tensor& x, const Margins& margins, double value);
/// Axes that a window moves along: 1 to 3. Error for a tensor of another rank.
int spatial_axes(const Tensor& x);

}  // namespace wick::onnx::detail
