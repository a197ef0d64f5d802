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

/// Error unless `other` is undefined or has the shape and dtype of `x`.
inline void check_like(const char* op, const char* what, const Tensor& x, const Tensor& other) {
  WICK_CHECK(!other.defined() || (other.shape() == x.shape() && other.dtype() == x.dtype()), op,
             ": ", what, " must match x: got ", other.dtype(), " ", other.shape(), ", expected ",
             x.dtype(), " ", x.shape());
}
inline void check_residual(const char* op, const Tensor& x, const Tensor& residual) {
  check_like(op, "residual", x, residual);
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

/// Error unless a forward pass found this statistic: float64, of `shape`.
inline void check_statistic(const char* op, const char* what, const Shape& shape,
                            const Tensor& statistic) {
  WICK_CHECK(
      statistic.dtype(op) == kFloat64 && statistic.shape() == shape && statistic.is_contiguous(),
      op, ": ", what, " is wrong: got ", statistic.dtype(), " ", statistic.shape(),
      ", expected row-major float64 ", shape);
}

}  // namespace wick
