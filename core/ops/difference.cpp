#include "wick/core/ops/difference.h"

#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/reduce_axes.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/sort.h"

namespace wick {

namespace {

// Without the first, and without the last, along `axis`.
Tensor tail(const Tensor& x, int64_t axis) { return x.narrow(axis, 1, x.size(axis) - 1); }
Tensor head(const Tensor& x, int64_t axis) { return x.narrow(axis, 0, x.size(axis) - 1); }

Tensor joined(const Tensor& x, int64_t axis, const Tensor& before, const Tensor& after) {
  std::vector<Tensor> parts;
  for (const Tensor& part : {before, x, after}) {
    if (part.defined()) parts.push_back(part);
  }
  return parts.size() == 1 ? x : cat(parts, axis);
}

Tensor gradient_along(const Tensor& x, int64_t axis, double spacing, int edge_order) {
  const int64_t n = x.size(axis);
  const auto at = [&](int64_t i) { return x.narrow(axis, i < 0 ? n + i : i, 1); };
  Tensor first = at(1) - at(0), last = at(-1) - at(-2);
  if (edge_order == 2) {
    first = at(1) * 2 - at(0) * 1.5 - at(2) * 0.5;
    last = at(-1) * 1.5 - at(-2) * 2 + at(-3) * 0.5;
  }
  std::vector<Tensor> parts = {first, last};
  if (n > 2) {
    parts.insert(parts.begin() + 1, (x.narrow(axis, 2, n - 2) - x.narrow(axis, 0, n - 2)) * 0.5);
  }
  return cat(parts, axis) * (1 / spacing);
}

// The areas between neighbours, where there are any.
Tensor areas(const char* op, const Tensor& y, const Tensor& x, double dx, int64_t axis) {
  WICK_CHECK(y.rank(op) > 0 && y.size(axis) > 0, op, ": no samples along the axis: got shape ",
             y.shape());
  const Tensor sums = tail(y, axis) + head(y, axis);
  if (!x.defined()) return sums * (dx / 2);
  Tensor places = x;
  if (x.rank() == 1) {  // along the axis
    WICK_CHECK(x.size(0) == y.size(axis), op, ": a place for each sample is needed: got ",
               x.size(0), ", expected ", y.size(axis));
    Shape shape = Shape::filled(y.rank(), 1);
    shape[wrap_axis(op, axis, y.rank())] = x.size(0);
    places = x.reshape(shape);
  }
  const int64_t along =
      wrap_axis(op, axis, y.rank()) - y.rank();  // from the back: x may have fewer
  return sums * (tail(places, along) - head(places, along)) * 0.5;
}

Tensor floating(const Tensor& x) { return is_floating(x.dtype()) ? x : x.to(kFloat32); }

template <bool kCumulative>
Tensor integral(const char* op, const Tensor& y, const Tensor& x, double dx, int64_t axis) {
  return computed_wide({floating(y), x.defined() ? floating(x) : x},
                       [&](const std::vector<Tensor>& in) {
                         const Tensor parts = areas(op, in[0], in[1], dx, axis);
                         return kCumulative ? cumsum(parts, axis) : sum(parts, {axis});
                       });
}

}  // namespace

Tensor diff(const Tensor& x, int64_t times, int64_t axis, const Tensor& before,
            const Tensor& after) {
  WICK_CHECK(x.rank("diff") > 0, "diff: a number has no neighbours: expected 1 axis or more");
  WICK_CHECK(times >= 0, "diff: times: got ", times, ", expected 0 or more");
  if (times == 0) return x;
  const auto differences = [&](const std::vector<Tensor>& in) {
    Tensor y = in[0];
    for (int64_t i = 0; i < times && y.size(axis) > 0; ++i) {
      y = y.dtype() == kBool ? ne(tail(y, axis), head(y, axis)) : tail(y, axis) - head(y, axis);
    }
    return y;
  };
  const std::vector<Tensor> all{joined(x, axis, before, after)};
  return times == 1 ? differences(all) : computed_wide(all, differences);
}

std::vector<Tensor> gradient(const Tensor& x, const GradientOptions& options) {
  check_floating("gradient", x);
  const int edge_order = options.edge_order;
  WICK_CHECK(edge_order == 1 || edge_order == 2, "gradient: edge_order: got ", edge_order,
             ", expected 1 or 2");
  const Shape axes = reduced_axes("gradient", x, options.axes);
  const auto spacings = static_cast<int>(options.spacing.size());
  WICK_CHECK(spacings == 1 || spacings == axes.rank(), "gradient: spacing: got ", spacings,
             " numbers, expected 1 or one for each of ", axes.rank(), " axes");
  std::vector<Tensor> gradients;
  for (int i = 0; i < axes.rank(); ++i) {
    // In the order of the caller's axes, which reduced_axes sorts.
    const int64_t axis = options.axes.rank() > 0 ? options.axes[i] : axes[i];
    WICK_CHECK(x.size(axis) > edge_order, "gradient: too few elements along axis ", axis, ": got ",
               x.size(axis), ", expected ", edge_order + 1, " or more");
    const double spacing = options.spacing[spacings == 1 ? 0 : static_cast<size_t>(i)];
    gradients.push_back(computed_wide({x}, [&](const std::vector<Tensor>& in) {
      return gradient_along(in[0], axis, spacing, edge_order);
    }));
  }
  return gradients;
}

Tensor trapezoid(const Tensor& y, double dx, int64_t axis) {
  check_defined("trapezoid", y);
  return integral<false>("trapezoid", y, {}, dx, axis);
}
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t axis) {
  check_defined("trapezoid", y, x);
  return integral<false>("trapezoid", y, x, 1, axis);
}
Tensor cumulative_trapezoid(const Tensor& y, double dx, int64_t axis) {
  check_defined("cumulative_trapezoid", y);
  return integral<true>("cumulative_trapezoid", y, {}, dx, axis);
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t axis) {
  check_defined("cumulative_trapezoid", y, x);
  return integral<true>("cumulative_trapezoid", y, x, 1, axis);
}

}  // namespace wick
