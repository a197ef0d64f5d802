#include "wick/core/ops/detail/reduce_axes.h"

#include "wick/core/autograd.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/reduce.h"

namespace wick {

namespace {

bool contains(const Shape& axes, int axis) {
  for (const int64_t a : axes) {
    if (a == axis) return true;
  }
  return false;
}

// Of what reduced_axes() gave; attributes of a graph may be others.
void check_axes(const Shape& shape, const Shape& axes) {
  int64_t before = -1;
  for (const int64_t a : axes) {
    WICK_CHECK(a > before && a < shape.rank(), detail::current_op(), ": wrong axes: got ", axes,
               " for shape ", shape, ", expected some of its axes in their order");
    before = a;
  }
}

}  // namespace

Shape reduced_axes(const char* op, const Tensor& x, const Shape& axes) {
  const int rank = x.rank(op);
  uint32_t wanted = 0;
  for (const int64_t a : axes) {
    const uint32_t bit = 1u << wrap_axis(op, a, rank);
    WICK_CHECK((wanted & bit) == 0, op, ": an axis is named twice: got axes ", axes);
    wanted |= bit;
  }
  Shape wrapped;
  for (int axis = 0; axis < rank; ++axis) {
    if (axes.empty() || (wanted >> axis & 1) != 0) wrapped.push_back(axis);
  }
  return wrapped;
}

Shape kept_shape(const Shape& shape, const Shape& axes) {
  check_axes(shape, axes);
  Shape kept = shape;
  for (const int64_t a : axes) kept[static_cast<int>(a)] = 1;
  return kept;
}

int64_t reduced_count(const Shape& shape, const Shape& axes) {
  check_axes(shape, axes);
  int64_t count = 1;
  for (const int64_t a : axes) count *= shape[static_cast<int>(a)];
  return count;
}

Tensor reduce_axes(Reduction kind, const Tensor& x, const Shape& axes, bool keepdim, Dtype dtype,
                   double factor, const Tensor& center) {
  const Shape kept = kept_shape(x.shape(), axes);
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (keepdim || !contains(axes, axis)) shape.push_back(kept[axis]);
  }
  Tensor y = empty(shape, dtype, x.device());
  if (y.numel() == 0) return y;
  if (x.numel() == 0) {
    const bool is_prod = kind == Reduction::kProd || kind == Reduction::kMin;
    y.fill_(factor == 1 ? (is_prod ? 1.0 : 0.0) : 0 * factor);
    return y;
  }
  View out = y.view_for_kernel();
  out.shape = kept;
  out.strides = contiguous_strides(kept);
  const View center_view = center.defined() ? center.view_for_kernel() : View{};
  AllocatorWorkspace workspace(x.device());
  WICK_DISPATCH(x.device(), reduce(kind, x.view_for_kernel(), center_view, out, factor, workspace));
  return y;
}

Tensor spread(const Tensor& y, const Shape& shape, const Shape& axes) {
  return y.reshape(kept_shape(shape, axes)).expand(shape);
}

void check_floating(const char* op, const Tensor& x) {
  WICK_CHECK(is_floating(x.dtype(op)), op, ": needs a floating dtype: got ", to_string(x.dtype()));
}

Tensor sum_to(const Tensor& gradient, const Shape& shape) {
  if (gradient.shape() == shape) return gradient;
  const int lead = gradient.rank() - shape.rank();
  bool fits = lead >= 0;
  Shape axes;
  for (int axis = 0; axis < gradient.rank() && fits; ++axis) {
    const int64_t have = gradient.shape()[axis];
    const int64_t want = axis < lead ? 1 : shape[axis - lead];
    fits = have == want || want == 1;
    if (axis < lead || have != want) axes.push_back(axis);
  }
  WICK_CHECK(fits, "sum_to: shapes do not broadcast: got ", gradient.shape(), ", expected ", shape);
  return sum(gradient, axes, true).reshape(shape);
}

}  // namespace wick
