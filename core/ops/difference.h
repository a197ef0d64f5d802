#pragma once

#include <vector>

#include "wick/core/tensor.h"

// Differences of neighbours along an axis, and integrals of samples.

namespace wick {

/// x[i + 1] - x[i] along `axis`, taken `times` times; of bool whether the two differ. `before` and
/// `after`, if defined, are joined to x first.
Tensor diff(const Tensor& x, int64_t times = 1, int64_t axis = -1, const Tensor& before = {},
            const Tensor& after = {});

/// Options of gradient(), as torch.gradient.
struct GradientOptions {
  /// Between neighbours: one number for all axes, or one for each of them.
  std::vector<double> spacing = {1};
  /// All axes if empty.
  Shape axes = {};
  /// Of the differences at both ends: 1 or 2.
  int edge_order = 1;
};
/// The derivative of the samples x along each axis by central differences, NumPy's gradient.
/// Floating; each axis has more elements than `edge_order`.
std::vector<Tensor> gradient(const Tensor& x, const GradientOptions& options = {});

/// The integral of the samples y along `axis` by trapezoids, at places `dx` apart.
Tensor trapezoid(const Tensor& y, double dx = 1, int64_t axis = -1);
/// The same at the places x: [size of the axis], or a shape that broadcasts with y's.
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t axis = -1);
/// The integral up to each place but the first.
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1, int64_t axis = -1);
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t axis = -1);

}  // namespace wick
