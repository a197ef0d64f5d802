#include "wick/core/ops/scatter_reduce.h"

#include "wick/core/apply.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/checked_index.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/divide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/sort.h"

namespace wick {

namespace {

// `index` [n] as an index for scatter along `axis` of `shape`.
Tensor spread_index(const char* op, const Tensor& index, int axis, Shape shape) {
  WICK_CHECK(index.rank(op) <= 1, op, ": index needs one axis: got shape ", index.shape());
  const Tensor checked = checked_index(op, index, 0, shape[axis]);
  Shape line = Shape::filled(shape.rank(), 1);
  line[axis] = shape[axis] = index.numel();
  return checked.reshape(line).expand(shape);
}

// Indices into `size` elements, of which negative ones count from the end.
Tensor from_front(const Tensor& index, int64_t size) {
  return where(index < 0, index + size, index);
}

// How many elements come to each place; int64.
Tensor arrivals(const Shape& shape, int axis, const Tensor& index) {
  return scatter_add(zeros(shape, kInt64, index.device()), axis, index,
                     ones(index.shape(), kInt64, index.device()));
}

// The largest (smallest) of what comes to each place, and x where nothing does.
struct ScatterExtreme {
  static constexpr OpInfo info{.name = "scatter_extreme"};
  int64_t axis;
  bool largest, include_self;
  static constexpr auto fields =
      std::tuple{field("axis", &ScatterExtreme::axis), field("largest", &ScatterExtreme::largest),
                 field("include_self", &ScatterExtreme::include_self)};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& index, const Tensor& source) const {
    // Written from the worst to the best, of which the last one stays. NaN, which is sorted behind
    // all numbers, stays in both directions.
    const bool turns = !largest && is_floating(x.dtype());
    const Tensor values = turns ? -source : source;
    const Tensor order = argsort(values, axis, !largest && !turns);
    const Tensor best = scatter(x, axis, gather(index, axis, order), gather(source, axis, order));
    Tensor y = best;
    if (include_self) {
      const Tensor touched = arrivals(x.shape(), static_cast<int>(axis), index) > 0;
      y = where(touched, largest ? maximum(best, x) : minimum(best, x), x);
    }
    saved.save(x, index, source, y);
    return y;
  }

  // Equal parts for all that are equal to the result.
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = saved[0].detach(), index = saved[1], source = saved[2].detach();
    const Tensor y = saved[3].detach(), d = wide(dy);
    const int a = static_cast<int>(axis);
    const Tensor source_is = eq(source, gather(y, axis, index)).to(d.dtype());
    Tensor x_is = eq(x, y).to(d.dtype());
    if (!include_self) x_is = eq(arrivals(x.shape(), a, index), 0).to(d.dtype());
    const Tensor count = scatter_add(x_is, axis, index, source_is);
    const Tensor part = d / count;
    return {part * x_is, {}, gather(part, axis, index) * source_is};
  }
};

// The product of what comes to each place, 1 where nothing does: sorted by place, and multiplied by
// doubling within each run of one place.
Tensor products(const Tensor& like, int axis, const Tensor& index, const Tensor& source) {
  const Tensor order = argsort(index, axis);
  const Tensor places = gather(index, axis, order);
  Tensor y = gather(source, axis, order);
  const int64_t n = index.size(axis);
  for (int64_t step = 1; step < n; step *= 2) {
    const Tensor same = eq(places.narrow(axis, step, n - step), places.narrow(axis, 0, n - step));
    const Tensor later = y.narrow(axis, step, n - step), earlier = y.narrow(axis, 0, n - step);
    y = cat({y.narrow(axis, 0, step), where(same, later * earlier, later)}, axis);
  }
  // A run's last element is its product.
  const Tensor last = cat({ne(places.narrow(axis, 1, n - 1), places.narrow(axis, 0, n - 1)),
                           ones(places.narrow(axis, 0, 1).shape(), kBool, places.device())},
                          axis);
  const Tensor sums =
      scatter_add(zeros(like.shape(), y.dtype(), y.device()), axis, places, where(last, y, 0));
  return where(arrivals(like.shape(), axis, index) > 0, sums, 1);
}

Tensor reduced(const char* op, const Tensor& x, int axis, const Tensor& index, const Tensor& source,
               ScatterReduction reduction, bool include_self) {
  if (reduction == ScatterReduction::kAmax || reduction == ScatterReduction::kAmin) {
    return apply(ScatterExtreme{axis, reduction == ScatterReduction::kAmax, include_self}, x, index,
                 source);
  }
  WICK_CHECK(x.dtype() != kBool, op, ": bool tensors cannot be added");
  return computed_wide({x, source}, [&](const std::vector<Tensor>& in) -> Tensor {
    const Tensor count = arrivals(x.shape(), axis, index);
    const Tensor touched = count > 0;
    if (reduction == ScatterReduction::kProd) {
      const Tensor product = products(x, axis, index, in[1]);
      return include_self ? in[0] * product : where(touched, product, in[0]);
    }
    const Tensor base = include_self ? in[0] : masked_fill(in[0], touched, 0);
    const Tensor total = scatter_add(base, axis, index, in[1]);
    if (reduction == ScatterReduction::kSum) return total;
    const Tensor terms = include_self ? count + 1 : clamp(count, 1);
    if (!is_floating(x.dtype())) return floor_divide(total, terms.to(x.dtype()));
    return total / terms.to(total.dtype());
  });
}

}  // namespace

Tensor index_copy(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  const int a = wrap_axis("index_copy", axis, x.rank());
  WICK_CHECK(x.rank() > 0, "index_copy: x needs an axis: got shape []");
  Shape expected = x.shape();
  expected[a] = index.numel();
  WICK_CHECK(source.shape() == expected, "index_copy: source has the wrong shape: got ",
             source.shape(), ", expected ", expected);
  return scatter(x, a, spread_index("index_copy", index, a, x.shape()), source);
}

Tensor index_fill(const Tensor& x, int64_t axis, const Tensor& index, Scalar value) {
  check_defined("index_fill", x, index);
  const int a = wrap_axis("index_fill", axis, x.rank());
  if (x.rank() == 0) return index_fill(x.reshape({1}), 0, index, value).reshape({});
  return scatter(x, a, spread_index("index_fill", index, a, x.shape()), value);
}

Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, Scalar value) {
  return scatter(x, axis, index, full(index.shape(), value, x.dtype(), x.device()));
}

namespace {
Tensor checked_reduce(const char* op, const Tensor& x, int64_t axis, const Tensor& index,
                      const Tensor& source, ScatterReduction reduction, bool include_self) {
  WICK_CHECK(x.dtype(op) == source.dtype(op), op, ": dtypes differ: got ", x.dtype(), " and ",
             source.dtype());
  if (x.rank() == 0 && index.rank() == 0 && source.rank() == 0) {
    return checked_reduce(op, x.reshape({1}), axis, index.reshape({1}), source.reshape({1}),
                          reduction, include_self)
        .reshape({});
  }
  const int a = wrap_axis(op, axis, x.rank());
  WICK_CHECK(index.rank(op) == x.rank() && source.rank() == x.rank(), op,
             ": numbers of axes differ: got ", x.shape(), ", index ", index.shape(), " and source ",
             source.shape());
  if (index.numel() == 0) return x.clone();
  const Tensor places = checked_index(op, index, 0, x.shape()[a]);
  Tensor part = source;
  for (int i = 0; i < x.rank(); ++i) {
    WICK_CHECK(index.shape()[i] <= source.shape()[i], op, ": index does not fit: got index ",
               index.shape(), " for a source of shape ", source.shape());
    part = part.narrow(i, 0, index.shape()[i]);
  }
  return reduced(op, x, a, places.to(kInt64), part, reduction, include_self);
}

}  // namespace

Tensor scatter_reduce(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                      ScatterReduction reduction, bool include_self) {
  return checked_reduce("scatter_reduce", x, axis, index, source, reduction, include_self);
}

Tensor index_reduce(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                    ScatterReduction reduction, bool include_self) {
  check_defined("index_reduce", x, index, source);
  const int a = wrap_axis("index_reduce", axis, x.rank());
  if (x.rank() == 0) {
    return index_reduce(x.reshape({1}), 0, index, source.reshape({1}), reduction, include_self)
        .reshape({});
  }
  return checked_reduce("index_reduce", x, a, spread_index("index_reduce", index, a, x.shape()),
                        source, reduction, include_self);
}

Tensor take(const Tensor& x, const Tensor& index) {
  const Tensor places = from_front(index.reshape({index.numel()}), x.numel());
  return gather(x.reshape({x.numel()}), 0, places).reshape(index.shape());
}

Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
  WICK_CHECK(source.numel("put") == index.numel("put"), "put: source has the wrong shape: got ",
             source.shape(), ", expected an element for each of index ", index.shape());
  const Tensor places = from_front(index.reshape({index.numel()}), x.numel());
  const Tensor line = x.reshape({x.numel()}), values = source.reshape({source.numel()});
  const Tensor y =
      accumulate ? scatter_add(line, 0, places, values) : scatter(line, 0, places, values);
  return y.reshape(x.shape());
}

namespace {

// A mask stands for one index per axis: the places where it is true.
std::vector<Tensor> without_masks(const char* op, const Tensor& x,
                                  const std::vector<Tensor>& indices) {
  std::vector<Tensor> all;
  for (const Tensor& index : indices) {
    if (index.dtype(op) != kBool) {
      all.push_back(index);
      continue;
    }
    for (int i = 0; i < index.rank(); ++i) {
      const auto axis = static_cast<int>(all.size()) + i;
      WICK_CHECK(axis < x.rank() && x.size(axis) == index.size(i), op,
                 ": a mask has the wrong shape: got ", index.shape(), " at axis ", all.size(),
                 " of ", x.shape());
    }
    const Tensor places = nonzero(index);
    for (int i = 0; i < index.rank(); ++i) all.push_back(places.select(1, i));
  }
  return all;
}

}  // namespace

Tensor index_put(const Tensor& x, const std::vector<Tensor>& given, const Tensor& values,
                 bool accumulate) {
  check_defined("index_put", x, values);
  const std::vector<Tensor> indices = without_masks("index_put", x, given);
  const auto axes = static_cast<int>(indices.size());
  WICK_CHECK(axes > 0 && axes <= x.rank("index_put"), "index_put: wrong number of indices: got ",
             axes, " for shape ", x.shape());
  Shape named;  // what the indices broadcast to, then the axes that stay
  for (const Tensor& index : indices) named = broadcast_shapes("index_put", named, index.shape());
  Tensor place = zeros(named, kInt64, x.device());
  for (int axis = 0; axis < axes; ++axis) {
    const Tensor& index = indices[static_cast<size_t>(axis)];
    place = place * x.size(axis) + from_front(index.to(kInt64), x.size(axis));
  }
  int64_t rest = 1;
  for (int axis = axes; axis < x.rank(); ++axis) {
    named.push_back(x.size(axis));
    rest *= x.size(axis);
  }
  const Tensor within = arange(rest).to(x.device());
  const Tensor all = place.reshape({place.numel(), 1}) * rest + within;
  return put(x, all.reshape(named), values.expand(named), accumulate);
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  const char* op = "masked_scatter";
  WICK_CHECK(mask.dtype() == kBool, op, ": mask must be bool: got ", mask.dtype());
  WICK_CHECK(x.dtype() == source.dtype(), op, ": dtypes differ: got ", x.dtype(), " and ",
             source.dtype());
  const Tensor places = nonzero(mask.expand(x.shape()).reshape({x.numel()})).reshape({-1});
  WICK_CHECK(source.numel() >= places.numel(), op, ": too few elements: got ", source.numel(),
             ", expected ", places.numel(), " or more");
  const Tensor values = source.reshape({source.numel()}).narrow(0, 0, places.numel());
  return scatter(x.reshape({x.numel()}), 0, places, values).reshape(x.shape());
}

}  // namespace wick
