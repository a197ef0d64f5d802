#include "wick/core/ops/count.h"

#include <bit>
#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/divide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/sort.h"
#include "wick/core/ops/special.h"

namespace wick {

namespace {

// The runs of equal elements of `line` [n], or of equal rows [n, m].
Unique runs_of(const Tensor& line) {
  const int64_t n = line.size(0);
  if (n == 0)
    return {line.clone(), zeros({0}, kInt64, line.device()), zeros({0}, kInt64, line.device())};
  Tensor differs = ne(line.narrow(0, 1, n - 1), line.narrow(0, 0, n - 1));
  if (line.rank() > 1) differs = differs.any({1});
  const Tensor fresh = cat({ones({1}, kBool, line.device()), differs});
  const Tensor starts = nonzero(fresh).reshape({-1});
  const Tensor ends =
      cat({starts.narrow(0, 1, starts.numel() - 1), full({1}, n, kInt64, line.device())});
  return {index_select(line, 0, starts), cumsum(fresh.to(kInt64), 0) - 1, ends - starts};
}

// The order that sorts rows [n, m]: stable sorts, from the last column to the first.
Tensor order_of_rows(const Tensor& rows) {
  Tensor order = arange(rows.size(0)).to(rows.device());
  for (int64_t column = rows.size(1) - 1; column >= 0; --column) {
    const Tensor key = rows.select(1, column).index_select(0, order);
    order = order.index_select(0, argsort(key, 0));
  }
  return order;
}

// The different slices along `axis`, of all if `sorted`, else of neighbours.
Unique unique_slices(const char* op, const Tensor& x, int64_t axis, bool sorted) {
  const NoGrad no_grad;
  const int a = wrap_axis(op, axis, x.rank(op));
  WICK_CHECK(x.rank() > 0, op, ": a number has no slices: expected 1 axis or more");
  const Tensor first = x.movedim({a}, {0}).contiguous();
  const int64_t n = first.size(0);
  WICK_CHECK(n == 0 || first.numel() > 0, op, ": the slices are empty: got shape ", x.shape());
  const Tensor rows = first.reshape({n, n == 0 ? 1 : first.numel() / n});
  const Tensor order = sorted && n > 0 ? order_of_rows(rows) : Tensor();
  Unique runs = runs_of(order.defined() ? rows.index_select(0, order) : rows);
  if (order.defined()) runs.inverse = scatter(zeros_like(order), 0, order, runs.inverse);
  Shape shape = first.shape();
  shape[0] = runs.values.size(0);
  runs.values = runs.values.reshape(shape).movedim({0}, {a});
  return runs;
}

}  // namespace

Unique unique_consecutive(const Tensor& x) {
  const NoGrad no_grad;
  Unique runs = runs_of(x.reshape({x.numel()}));
  runs.inverse = runs.inverse.reshape(x.shape());
  return runs;
}

Unique unique(const Tensor& x) {
  const NoGrad no_grad;
  const Sorted sorted = sort(x.reshape({x.numel()}), 0);
  Unique runs = runs_of(sorted.values);
  runs.inverse =
      scatter(zeros_like(runs.inverse), 0, sorted.indices, runs.inverse).reshape(x.shape());
  return runs;
}

Unique unique(const Tensor& x, int64_t axis) { return unique_slices("unique", x, axis, true); }
Unique unique_consecutive(const Tensor& x, int64_t axis) {
  return unique_slices("unique_consecutive", x, axis, false);
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength) {
  const NoGrad no_grad;
  WICK_CHECK(x.rank() == 1 && !is_floating(x.dtype()) && x.dtype() != kBool,
             "bincount: needs a vector of integers: got ", x.dtype(), " ", x.shape());
  WICK_CHECK(minlength >= 0, "bincount: minlength: got ", minlength, ", expected 0 or more");
  const Tensor at = x.to(kInt64);
  int64_t size = minlength;
  if (at.numel() > 0) {
    WICK_CHECK(amin(at).item<int64_t>() >= 0, "bincount: negative number: got ",
               amin(at).item<int64_t>(), ", expected 0 or more");
    size = std::max(size, amax(at).item<int64_t>() + 1);
  }
  Tensor counted = ones({at.numel()}, kInt64, x.device());
  if (weights.defined()) {
    WICK_CHECK(weights.shape() == x.shape(), "bincount: weights have the wrong shape: got ",
               weights.shape(), ", expected ", x.shape());
    counted = weights.dtype() == kFloat32 ? weights : weights.to(kFloat64);
  }
  return scatter_add(zeros({size}, counted.dtype(), x.device()), 0, at, counted);
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  const NoGrad no_grad;
  const char* op = "searchsorted";
  const bool shared = sorted.rank(op) == 1;
  bool fits = shared || sorted.rank() == values.rank(op);
  for (int i = 0; !shared && fits && i + 1 < sorted.rank(); ++i) {
    fits = sorted.shape()[i] == values.shape()[i];
  }
  WICK_CHECK(fits && sorted.rank() > 0, op, ": shapes do not fit: got ", sorted.shape(), " and ",
             values.shape(), ", expected a vector, or equal sizes but for the last");
  const Tensor wanted = shared ? values.reshape({values.numel()}) : values;
  const int64_t n = sorted.size(-1);
  Tensor low = zeros(wanted.shape(), kInt64, values.device());
  if (n == 0) return low.reshape(values.shape());
  // By halving what is left, [low, high).
  Tensor high = full_like(low, n);
  const Tensor one = scalar_tensor(int64_t{1}, kInt64, values.device());
  for (int left = std::bit_width(static_cast<uint64_t>(n)); left > 0; --left) {
    const Tensor middle = bitwise_right_shift(low + high, one);
    const Tensor at = clamp(middle, 0, n - 1);
    const Tensor found = gather(sorted, -1, at);
    // NaN is behind all numbers, as sort has it.
    const Tensor below = right ? le(found, wanted) : lt(found, wanted);
    const Tensor last = right ? isnan(wanted) : isnan(wanted) & logical_not(isnan(found));
    const Tensor behind = below | last;
    const Tensor open = low < high;
    low = where(open & behind, at + 1, low);
    high = where(open & logical_not(behind), at, high);
  }
  return low.reshape(values.shape());
}

Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right) {
  check_defined("bucketize", x, boundaries);
  WICK_CHECK(boundaries.rank() == 1, "bucketize: boundaries need one axis: got shape ",
             boundaries.shape());
  return searchsorted(boundaries, x, right);
}

Tensor histc(const Tensor& x, int64_t bins, double low, double high) {
  const NoGrad no_grad;
  WICK_CHECK(is_floating(x.dtype()), "histc: needs a floating dtype: got ", x.dtype());
  WICK_CHECK(bins > 0, "histc: bins: got ", bins, ", expected 1 or more");
  WICK_CHECK(low <= high, "histc: wrong range: got ", low, " to ", high,
             ", expected the lower bound first");
  const Tensor line = wide(x.reshape({x.numel()}));
  if (low == high && x.numel() > 0) {
    low = amin(line).item<double>();
    high = amax(line).item<double>();
  }
  WICK_CHECK(std::isfinite(low) && std::isfinite(high), "histc: the range is not finite: got ", low,
             " to ", high, ", expected finite bounds");
  if (low == high) {
    low -= 1;
    high += 1;
  }
  const Tensor inside = (line >= low) & (line <= high);
  const Tensor part = (line - low) * static_cast<double>(bins) / (high - low);
  const Tensor bin =
      clamp(floor(masked_fill(part, logical_not(inside), 0)).to(kInt64), 0, bins - 1);
  return scatter_add(zeros({bins}, kInt64, x.device()), 0, bin, inside.to(kInt64)).to(x.dtype());
}

Tensor isin(const Tensor& x, const Tensor& values, bool invert) {
  const NoGrad no_grad;
  const Dtype dtype = promote(x.dtype("isin"), values.dtype("isin"));
  if (values.numel() == 0) return full(x.shape(), invert, kBool, x.device());
  const Tensor sorted = sort(values.reshape({values.numel()}).to(dtype), 0).values;
  const Tensor wanted = x.to(dtype);
  const Tensor place = clamp(searchsorted(sorted, wanted), {}, values.numel() - 1);
  const Tensor found = sorted.index_select(0, place.reshape({x.numel()})).reshape(x.shape());
  return invert ? ne(found, wanted) : eq(found, wanted);
}

Tensor argwhere(const Tensor& x) {
  check_defined("argwhere", x);
  return nonzero(x);
}

std::vector<Tensor> unravel_index(const Tensor& places, const Shape& shape) {
  const NoGrad no_grad;
  WICK_CHECK(!is_floating(places.dtype("unravel_index")) && places.dtype() != kBool,
             "unravel_index: places: got ", places.dtype(), ", expected integers");
  if (places.device().is_cpu() && places.numel() > 0) {
    const int64_t low = amin(places).item<int64_t>(), high = amax(places).item<int64_t>();
    WICK_CHECK(low >= 0 && high < shape.numel(), "unravel_index: place outside: got ",
               low < 0 ? low : high, ", expected 0 to ", shape.numel() - 1, " for shape ", shape);
  }
  std::vector<Tensor> coordinates;
  int64_t below = shape.numel();
  for (const int64_t size : shape) {
    below = size > 0 ? below / size : 0;
    coordinates.push_back(
        remainder(floor_divide(places, std::max<int64_t>(below, 1)), std::max<int64_t>(size, 1)));
  }
  return coordinates;
}

}  // namespace wick
