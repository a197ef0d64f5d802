#include "wick/core/ops/statistics.h"

#include <cmath>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/reduce_axes.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/special.h"

// Made of sort, gather and scans: where an element is is found without a graph, and gathering it
// gives the gradient.
namespace wick {

namespace {

// x with an axis at least.
Tensor with_axis(const Tensor& x) { return x.rank() == 0 ? x.reshape({1}) : x; }

// The elements of x at `index` along `axis`, of size 1 there.
Sorted gathered(const char* op, const Tensor& x, const Tensor& index, int64_t axis, bool keepdim) {
  const Tensor from = with_axis(x);
  const int a = wrap_axis(op, axis, from.rank());
  const Tensor values = gather(from, a, index);
  if (x.rank() == 0) return {values.reshape({}), index.reshape({})};
  if (keepdim) return {values, index};
  return {values.squeeze(a), index.squeeze(a)};
}

void check_not_empty(const char* op, const Tensor& x, int64_t axis) {
  WICK_CHECK(x.rank() == 0 || x.size(axis) > 0, op, ": no elements to choose from: got shape ",
             x.shape(), ", axis ", axis);
}

// The median of each line of x, among those that count: all, or those that are no NaN.
Sorted middle(const char* op, const Tensor& x, int64_t axis, bool keepdim, bool skips_nan) {
  wrap_axis(op, axis, x.rank());
  check_not_empty(op, x, axis);
  const Tensor from = with_axis(x.detach());
  const Tensor order = argsort(from, axis);
  const int64_t n = from.size(axis);
  // NaN is sorted behind all numbers.
  const Tensor numbers = n - sum(isnan(from), {axis}, true);
  Tensor place = full_like(numbers, (n - 1) / 2);
  if (skips_nan) {
    place = clamp(bitwise_right_shift(numbers - 1, ones_like(numbers)), 0);
  } else {
    place = where(numbers < n, numbers, place);
  }
  return gathered(op, x, gather(order, axis, place), axis, keepdim);
}

// The median of all elements of x, which has one axis. Its gradient goes to those equal to it.
template <bool kSkipsNan>
struct MedianOfAll {
  static constexpr OpInfo info{.name = kSkipsNan ? "nanmedian" : "median"};
  static constexpr auto fields = std::tuple{};

  Tensor forward(Saved& saved, const Tensor& x) const {
    const bool none = x.numel() == 0 && is_floating(x.dtype());
    Tensor y = none ? full({}, NAN, x.dtype(), x.device())
                    : middle(info.name, x.detach(), 0, false, kSkipsNan).values;
    saved.save(x, y);
    return y;
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = saved[0].detach(), y = saved[1].detach(), g = wide(dy);
    const Tensor equal = (eq(x, y) | (isnan(x) & isnan(y))).to(g.dtype());
    return {equal * (g / sum(equal))};
  }
};

// The ranks that quantiles q [Q] have among `numbers` [..., 1] sorted elements: [..., Q].
Tensor ranks_of(const Tensor& q, const Tensor& numbers, QuantileMode mode) {
  const Tensor ranks = q * (numbers - 1).to(q.dtype());
  if (mode == QuantileMode::kLower) return floor(ranks);
  if (mode == QuantileMode::kHigher) return ceil(ranks);
  if (mode == QuantileMode::kNearest) return round(ranks);
  return ranks;
}

Tensor quantiles(const char* op, const Tensor& x, const Tensor& q, std::optional<int64_t> axis,
                 bool keepdim, QuantileMode mode, bool skips_nan) {
  check_floating(op, x);
  WICK_CHECK(q.rank() <= 1 && (q.dtype() == x.dtype() || q.dtype() == kFloat64), op,
             ": q does not fit: got ", q.dtype(), " ", q.shape(), ", expected ", x.dtype(),
             " or float64 with at most one axis");
  WICK_CHECK(x.numel() > 0, op, ": no elements to choose from: got shape ", x.shape());
  const int a = axis ? wrap_axis(op, *axis, x.rank()) : 0;
  const Tensor lines = axis ? with_axis(x).movedim(a, -1) : x.reshape({x.numel()});
  const int64_t n = lines.size(-1);
  // [..., Q] of what has its axis last; ranks in double, which counts exactly.
  const Tensor sorted = sort(lines, -1).values;
  const Tensor numbers = n - sum(isnan(lines.detach()), {-1}, true);
  const Tensor shares = q.to(kFloat64).reshape({-1});
  Tensor ranks = ranks_of(shares, skips_nan ? clamp(numbers, 1) : full_like(numbers, n), mode);
  if (!skips_nan) ranks = where(numbers < n, full_like(ranks, static_cast<double>(n - 1)), ranks);
  const Tensor below = floor(ranks.detach()), above = ceil(ranks.detach());
  Tensor y = gather(sorted, -1, below.to(kInt64));
  if (mode == QuantileMode::kLinear || mode == QuantileMode::kMidpoint) {
    const Tensor next = gather(sorted, -1, above.to(kInt64));
    const Tensor weight = mode == QuantileMode::kLinear ? ranks - below : (above - below) * 0.5;
    y = computed_wide({y, next}, [&](const std::vector<Tensor>& in) {
      return lerp(in[0], in[1], weight.to(in[0].dtype()));
    });
  }
  // The quantiles come first, then the axes that are left.
  y = y.movedim(-1, 0);
  if (keepdim) {
    Shape shape = axis && x.rank() > 0 ? kept_shape(x.shape(), {a}) : Shape::filled(x.rank(), 1);
    shape.insert(0, shares.numel());
    y = y.reshape(shape);
  } else if (x.rank() == 0) {
    y = y.reshape({shares.numel()});
  }
  return q.rank() == 0 ? y.squeeze(0) : y;
}

Tensor share(const Tensor& x, double q) {
  WICK_CHECK(q >= 0 && q <= 1, "quantile: q: got ", q, ", expected 0 to 1");
  return scalar_tensor(q, kFloat64, x.device());
}

// Where the best element so far is, by doubling: after k passes those of the last 2^k are known.
Tensor running_places(const Tensor& x, int axis, bool largest) {
  const int64_t n = x.size(axis);
  Shape line = Shape::filled(x.rank(), 1);
  line[axis] = n;
  Tensor value = x;
  Tensor place = arange(0, n, 1, kInt64, x.device()).reshape(line).expand(x.shape()).contiguous();
  for (int64_t step = 1; step < n; step *= 2) {
    const Tensor later = value.narrow(axis, step, n - step);
    const Tensor earlier = value.narrow(axis, 0, n - step);
    const Tensor wins = (largest ? later >= earlier : later <= earlier) | isnan(later);
    const auto advance = [&](const Tensor& t) {
      const Tensor chosen =
          where(wins, t.narrow(axis, step, n - step), t.narrow(axis, 0, n - step));
      return cat({t.narrow(axis, 0, step), chosen}, axis);
    };
    place = advance(place);
    value = advance(value);
  }
  return place;
}

Sorted running(const char* op, const Tensor& x, int64_t axis, bool largest) {
  const int a = wrap_axis(op, axis, x.rank());
  const Tensor from = with_axis(x);
  if (x.numel() == 0) return {x.clone(), zeros(x.shape(), kInt64, x.device())};
  const Tensor place = running_places(from.detach(), a, largest);
  return {gather(from, a, place).reshape(x.shape()), place.reshape(x.shape())};
}

}  // namespace

std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Shape& axes, int64_t correction,
                                   bool keepdim) {
  check_defined("var_mean", x);
  return {var(x, axes, correction, keepdim), mean(x, axes, keepdim)};
}
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Shape& axes, int64_t correction,
                                   bool keepdim) {
  check_defined("std_mean", x);
  return {stddev(x, axes, correction, keepdim), mean(x, axes, keepdim)};
}
std::pair<Tensor, Tensor> aminmax(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  check_defined("aminmax", x);
  const Shape axes = axis ? Shape{*axis} : Shape{};
  return {amin(x, axes, keepdim), amax(x, axes, keepdim)};
}

Tensor nansum(const Tensor& x, const Shape& axes, bool keepdim) {
  if (!is_floating(x.dtype())) return sum(x, axes, keepdim);
  return sum(masked_fill(x, isnan(x), 0), axes, keepdim);
}
Tensor nanmean(const Tensor& x, const Shape& axes, bool keepdim) {
  check_floating("nanmean", x);
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    const Tensor numbers = sum(logical_not(isnan(in[0])), axes, keepdim);
    return nansum(in[0], axes, keepdim) / numbers.to(in[0].dtype());
  });
}
Tensor count_nonzero(const Tensor& x, const Shape& axes) {
  check_defined("count_nonzero", x);
  return sum(ne(x, 0), axes);
}

Sorted kthvalue(const Tensor& x, int64_t k, int64_t axis, bool keepdim) {
  wrap_axis("kthvalue", axis, x.rank());
  const int64_t n = x.rank() == 0 ? 1 : x.size(axis);
  WICK_CHECK(k >= 1 && k <= n, "kthvalue: k out of range: got ", k, " for axis ", axis,
             " of shape ", x.shape(), ", expected 1 to ", n);
  const Tensor order = argsort(with_axis(x), axis);
  return gathered("kthvalue", x, order.narrow(axis, k - 1, 1), axis, keepdim);
}

Sorted median(const Tensor& x, int64_t axis, bool keepdim) {
  check_defined("median", x);
  return middle("median", x, axis, keepdim, false);
}
Tensor median(const Tensor& x) {
  check_defined("median", x);
  return apply(MedianOfAll<false>{}, x.reshape({x.numel()}));
}
Sorted nanmedian(const Tensor& x, int64_t axis, bool keepdim) {
  check_defined("nanmedian", x);
  return middle("nanmedian", x, axis, keepdim, true);
}
Tensor nanmedian(const Tensor& x) {
  check_defined("nanmedian", x);
  return apply(MedianOfAll<true>{}, x.reshape({x.numel()}));
}

Sorted mode(const Tensor& x, int64_t axis, bool keepdim) {
  check_defined("mode", x);
  const Tensor from = with_axis(x.detach());
  const int a = wrap_axis("mode", axis, from.rank());
  check_not_empty("mode", x, axis);
  const auto sorted = sort(from, a);
  const Tensor values = sorted.values, order = sorted.indices;
  // How long the run of equal elements is that ends at each place; NaN ends each run.
  const int64_t n = from.size(a);
  Shape line = Shape::filled(from.rank(), 1);
  line[a] = n;
  const Tensor place = arange(0, n, 1, kInt64, x.device()).reshape(line).expand(from.shape());
  const Tensor fresh = cat({ones(values.narrow(a, 0, 1).shape(), kBool, x.device()),
                            ne(values.narrow(a, 1, n - 1), values.narrow(a, 0, n - 1))},
                           a);
  const Tensor start = cummax(where(fresh, place, 0), a).values;
  const Tensor longest = argmax(place - start, a, true);
  return gathered("mode", x, gather(order, a, longest), axis, keepdim);
}

Tensor quantile(const Tensor& x, const Tensor& q, std::optional<int64_t> axis, bool keepdim,
                QuantileMode mode) {
  check_defined("quantile", x, q);
  return quantiles("quantile", x, q, axis, keepdim, mode, false);
}
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> axis, bool keepdim,
                QuantileMode mode) {
  check_defined("quantile", x);
  return quantile(x, share(x, q), axis, keepdim, mode);
}
Tensor nanquantile(const Tensor& x, const Tensor& q, std::optional<int64_t> axis, bool keepdim,
                   QuantileMode mode) {
  check_defined("nanquantile", x, q);
  return quantiles("nanquantile", x, q, axis, keepdim, mode, true);
}
Tensor nanquantile(const Tensor& x, double q, std::optional<int64_t> axis, bool keepdim,
                   QuantileMode mode) {
  check_defined("nanquantile", x);
  return nanquantile(x, share(x, q), axis, keepdim, mode);
}

Sorted cummax(const Tensor& x, int64_t axis) {
  check_defined("cummax", x);
  return running("cummax", x, axis, true);
}
Sorted cummin(const Tensor& x, int64_t axis) {
  check_defined("cummin", x);
  return running("cummin", x, axis, false);
}

Tensor logcumsumexp(const Tensor& x, int64_t axis) {
  check_floating("logcumsumexp", x);
  const int a = wrap_axis("logcumsumexp", axis, x.rank());
  if (x.rank() == 0) return x.clone();
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    const int64_t n = in[0].size(a);
    Tensor y = in[0].clone();
    // By doubling, as running_places: no exponent is larger than the sums it goes into.
    for (int64_t step = 1; step < n; step *= 2) {
      const Tensor later = y.narrow(a, step, n - step), earlier = y.narrow(a, 0, n - step);
      y = cat({y.narrow(a, 0, step), logaddexp(later, earlier)}, a);
    }
    return y;
  });
}

}  // namespace wick
