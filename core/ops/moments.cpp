#include <cmath>
#include <limits>

#include "wick/core/apply.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/detail/reduce_axes.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/reduce.h"

// Reductions that need more than one pass: variance, log-sum-exp and norms.
namespace wick {

namespace {

// 1 / (n - correction); infinite where there are no degrees of freedom.
double inverse_freedom(const Shape& shape, const Shape& axes, int64_t correction) {
  const int64_t count = reduced_count(shape, axes);
  return 1.0 /
         (count > correction ? static_cast<double>(count) - static_cast<double>(correction) : 0);
}

// In float64, with the reduced axes kept.
Tensor variance(const Tensor& x, const Shape& axes, int64_t correction) {
  const double count = static_cast<double>(reduced_count(x.shape(), axes));
  Tensor center = reduce_axes(Reduction::kSum, x, axes, true, kFloat64, 1 / count);
  // Where the mean is large beside the deviations, its rounding would show in their squares.
  center =
      center + reduce_axes(Reduction::kSumDeviations, x, axes, true, kFloat64, 1 / count, center);
  return reduce_axes(Reduction::kSumSquaredDeviations, x, axes, true, kFloat64,
                     inverse_freedom(x.shape(), axes, correction), center);
}

// A float64 result with its axes kept, as the caller wants it. `kept`: gets what backward needs of
// it, with its axes kept: the result itself, or that in float32 where the result has 16 bits.
Tensor finish(const Tensor& y, const Tensor& x, const Shape& axes, bool keepdim, Tensor* kept) {
  Shape shape;
  int next = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool reduced = next < axes.rank() && axes[next] == axis;
    if (reduced) ++next;
    if (keepdim || !reduced) shape.push_back(reduced ? 1 : x.shape()[axis]);
  }
  const Tensor result = y.to(x.dtype()).reshape(shape);
  if (kept != nullptr) *kept = is_reduced(x.dtype()) ? y.to(kFloat32).reshape(shape) : result;
  return result;
}

// What `finish` kept, or with its history, which the result has but a float32 copy lacks.
template <class Op>
Tensor kept_result(const Op& op, const Saved& saved) {
  const Tensor x = saved[0];
  return is_reduced(x.dtype()) && grad_enabled() ? apply(op, wide(x)) : saved[1];
}

// The derivative of var(x): 2 (x - mean) / (n - correction), times `weight`.
Tensor deviation_gradient(const Tensor& given, const Tensor& weight, const Shape& axes,
                          int64_t correction) {
  const Tensor x = wide(given);
  const double factor = 2 * inverse_freedom(x.shape(), axes, correction);
  return (x - mean(x, axes, true)) * (weight.reshape(kept_shape(x.shape(), axes)) * factor);
}

struct Var {
  static constexpr OpInfo info{.name = "var"};
  Shape axes;
  int64_t correction;
  bool keepdim;
  static constexpr auto fields =
      std::tuple{field("axes", &Var::axes), field("correction", &Var::correction),
                 field("keepdim", &Var::keepdim)};

  Tensor forward(Saved& saved, const Tensor& x) const {
    saved.save(x);
    return finish(variance(x, axes, correction), x, axes, keepdim, nullptr);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {deviation_gradient(saved[0], wide(dy), axes, correction)};
  }
};

struct Stddev {
  static constexpr OpInfo info{.name = "stddev"};
  Shape axes;
  int64_t correction;
  bool keepdim;
  static constexpr auto fields =
      std::tuple{field("axes", &Stddev::axes), field("correction", &Stddev::correction),
                 field("keepdim", &Stddev::keepdim)};

  Tensor forward(Saved& saved, const Tensor& x) const {
    Tensor kept;
    Tensor y = finish(sqrt(variance(x, axes, correction)), x, axes, keepdim, &kept);
    saved.save(x, kept);
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor y = kept_result(*this, saved);
    const Tensor weight = (wide(dy) / (y * 2)).masked_fill(eq(y, 0), 0);
    return {deviation_gradient(saved[0], weight, axes, correction)};
  }
};

struct LogSumExp {
  static constexpr OpInfo info{.name = "logsumexp", .autocast = {.cuda = Autocast::kToFloat32}};
  Shape axes;
  bool keepdim;
  static constexpr auto fields =
      std::tuple{field("axes", &LogSumExp::axes), field("keepdim", &LogSumExp::keepdim)};

  Tensor forward(Saved& saved, const Tensor& x) const {
    Tensor y;
    if (x.numel() == 0) {
      y = log(reduce_axes(Reduction::kSum, x, axes, true, kFloat64));
    } else {
      const Tensor largest = reduce_axes(Reduction::kMax, x, axes, true, kFloat64);
      const Tensor center = largest.masked_fill(isinf(largest), 0);
      y = log(reduce_axes(Reduction::kSumExp, x, axes, true, kFloat64, 1, center)) + center;
    }
    Tensor kept;
    y = finish(y, x, axes, keepdim, &kept);
    saved.save(x, kept);
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = wide(saved[0]), y = kept_result(*this, saved);
    const Tensor finite = y.masked_fill(eq(y, -std::numeric_limits<double>::infinity()), 0);
    return {exp(x - spread(finite, x.shape(), axes)) * spread(wide(dy), x.shape(), axes)};
  }
};

struct Norm {
  static constexpr OpInfo info{
      .name = "norm", .autocast = {.cuda = Autocast::kFloat32Out, .cpu = Autocast::kToFloat32}};
  double ord;
  Shape axes;
  bool keepdim;
  static constexpr auto fields = std::tuple{field("ord", &Norm::ord), field("axes", &Norm::axes),
                                            field("keepdim", &Norm::keepdim)};

  Tensor forward(Saved& saved, const Tensor& x) const {
    Tensor kept;
    Tensor y = finish(value(x), x, axes, keepdim, &kept);
    saved.save(x, kept);
    return y;
  }

  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = wide(saved[0]);
    const Shape kept = kept_shape(x.shape(), axes);
    const Tensor y = kept_result(*this, saved).reshape(kept), g = wide(dy).reshape(kept);
    if (ord == 0) return {zeros_like(x)};
    if (ord == 1) return {sign(x) * g};
    if (ord == 2) return {x * (g / y).masked_fill(eq(y, 0), 0)};
    if (std::isinf(ord)) {
      const Tensor equal = eq(abs(x), y).to(x.dtype());
      return {sign(x) * equal * (g / sum(equal, axes, true))};
    }
    // Of a ratio: powers of the elements can be beyond the dtype where the gradient is not.
    const Tensor ratio = abs(x) / y.masked_fill(eq(y, 0), 1);
    const Tensor slope = pow(ratio, ord - 1).masked_fill(eq(x, 0), 0);
    return {sign(x) * slope.masked_fill(eq(y, 0), 0) * g};
  }

 private:
  // With the reduced axes kept.
  Tensor value(const Tensor& x) const {
    const auto total = [&](const Tensor& terms) {
      return reduce_axes(Reduction::kSum, terms, axes, true, kFloat64);
    };
    if (ord == 2) return sqrt(reduce_axes(Reduction::kSumSquares, x, axes, true, kFloat64));
    if (ord == 1) return total(abs(x));
    if (ord == 0) return total(ne(x, 0));
    if (std::isinf(ord)) return ord > 0 ? amax(abs(x), axes, true) : amin(abs(x), axes, true);
    return pow(total(pow(abs(wide(x)), ord)), 1 / ord);
  }
};

}  // namespace

Tensor var(const Tensor& x, const Shape& axes, int64_t correction, bool keepdim) {
  check_floating("var", x);
  return apply(Var{reduced_axes("var", x, axes), correction, keepdim}, x);
}
Tensor stddev(const Tensor& x, const Shape& axes, int64_t correction, bool keepdim) {
  check_floating("stddev", x);
  return apply(Stddev{reduced_axes("stddev", x, axes), correction, keepdim}, x);
}
Tensor logsumexp(const Tensor& x, const Shape& axes, bool keepdim) {
  const Tensor in = is_floating(x.dtype()) ? x : x.to(kFloat32);
  return apply(LogSumExp{reduced_axes("logsumexp", x, axes), keepdim}, in);
}
Tensor cosine_similarity(const Tensor& x, const Tensor& y, int64_t axis, double eps) {
  const OpInfo info{.name = "cosine_similarity", .autocast = {.cuda = Autocast::kToFloat32}};
  check_floating(info.name, x);
  check_floating(info.name, y);
  const std::array<Tensor, 2> given{x, y};
  std::vector<Tensor> cast;
  const std::span<const Tensor> inputs = amp::cast_inputs(info, given, cast);
  return computed_wide({inputs[0], inputs[1]}, [&](const std::vector<Tensor>& in) {
    const Shape shape = broadcast_shapes(info.name, in[0].shape(), in[1].shape());
    const Shape axes{wrap_axis(info.name, axis, shape.rank())};
    const auto direction = [&](const Tensor& given_vector) {
      const Tensor vector = given_vector.expand(shape);
      return vector / clamp(norm(vector, 2, axes, true), eps);
    };
    return sum(direction(in[0]) * direction(in[1]), axes);
  });
}
Tensor norm(const Tensor& x, double ord, const Shape& axes, bool keepdim) {
  check_floating("norm", x);
  return apply(Norm{ord, reduced_axes("norm", x, axes), keepdim}, x);
}

}  // namespace wick
