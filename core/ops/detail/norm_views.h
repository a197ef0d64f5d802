#pragma once

#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/kernels/norm.h"

// What the normalisations pass to kernels.
namespace wick {

/// A weight or bias as kernels take it; undefined if it is.
inline Tensor as_parameter(const Tensor& x, const Tensor& parameter) {
  return parameter.defined() ? parameter.to(accumulator_dtype(x.dtype())).contiguous() : parameter;
}

/// An optional tensor as kernels take it.
inline View view_of(const Tensor& x) { return x.defined() ? x.view_for_kernel() : View{}; }

/// Error unless a residual is undefined or like `x`.
inline void check_residual(const char* op, const Tensor& x, const Tensor& residual) {
  WICK_CHECK(
      !residual.defined() || (residual.shape() == x.shape() && residual.dtype() == x.dtype()), op,
      ": residual must match x: got ", residual.dtype(), " ", residual.shape(), ", expected ",
      x.dtype(), " ", x.shape());
}

/// Error unless a weight, bias or statistic is undefined or floating, of `shape`.
inline void check_parameter(const char* op, const char* what, const Shape& shape,
                            const Tensor& parameter) {
  if (!parameter.defined()) return;
  WICK_CHECK(parameter.shape() == shape, op, ": ", what, " has the wrong shape: got ",
             parameter.shape(), ", expected ", shape);
  WICK_CHECK(is_floating(parameter.dtype()), op, ": ", what, " needs a floating dtype: got ",
             to_string(parameter.dtype()));
}

}  // namespace wick
