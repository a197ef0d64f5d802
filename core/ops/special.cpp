#include "wick/core/ops/special.h"

#include <cmath>

#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/kernels/elementwise_ops_special.h"

namespace wick {

template <>
constexpr auto functor_fields<fn::NanToNum> =
    std::tuple{field("nan", &fn::NanToNum::nan), field("posinf", &fn::NanToNum::posinf),
               field("neginf", &fn::NanToNum::neginf)};

template <>
constexpr AutocastPolicy functor_autocast<fn::Log10> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Acos> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Asin> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Cosh> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Sinh> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Erfinv> = kFloat32OnGpus;

namespace {

// Without a derivative of its own: asking for one is an error that names it.
struct Trigamma : fn::Trigamma {
  static constexpr OpInfo info{
      .name = name, .differentiable = false, .is_gradient = true, .elementwise = true};

  Tensor forward(Saved&, const Tensor& x) const {
    const Dtype dtype = floating_dtype(x.dtype());
    const Tensor y = empty_like(x, dtype);
    run_functor(static_cast<const fn::Trigamma&>(*this), dtype, y, x);
    return y;
  }
};

struct CopysignRule : fn::Copysign {
  using Functor = fn::Copysign;
  static constexpr bool keeps_inputs = true;
  int roundings(size_t) const { return 1; }
  Gradients gradients(const Tensor& dz, const Tensor& x, const Tensor& y, bool needs_x,
                      bool needs_y) const {
    const Tensor one = ones_like(y);
    return {needs_x ? dz * (sign(x) * copysign(one, y)) : Tensor(), needs_y ? dz * 0 : Tensor()};
  }
};

struct HypotRule : fn::Hypot {
  using Functor = fn::Hypot;
  static constexpr bool keeps_inputs = true;
  int roundings(size_t) const { return 3; }
  Gradients gradients(const Tensor& dz, const Tensor& x, const Tensor& y, bool needs_x,
                      bool needs_y) const {
    const Tensor scaled = dz / hypot(x, y);
    return {needs_x ? scaled * x : Tensor(), needs_y ? scaled * y : Tensor()};
  }
};

struct XlogyRule : fn::Xlogy {
  using Functor = fn::Xlogy;
  static constexpr bool keeps_inputs = true;
  int roundings(size_t) const { return 2; }
  Gradients gradients(const Tensor& dz, const Tensor& x, const Tensor& y, bool needs_x,
                      bool needs_y) const {
    Tensor dx, dy;
    if (needs_x) dx = dz * masked_fill(log(y), logical_and(eq(x, 0), le(y, 0)), 0);
    if (needs_y) dy = dz * (x / y);
    return {dx, dy};
  }
};

// Of logaddexp and logaddexp2: each gets the share of its term, whose exponent is the difference to
// the other times `factor`.
template <class F>
struct LogSumRule : F {
  using Functor = F;
  static constexpr bool keeps_inputs = true;
  static constexpr double kFactor = std::is_same_v<F, fn::Logaddexp> ? 1 : 0.693147180559945309;
  int roundings(size_t) const { return 4; }
  Gradients gradients(const Tensor& dz, const Tensor& x, const Tensor& y, bool needs_x,
                      bool needs_y) const {
    const Tensor apart = masked_fill(x - y, eq(x, y), 0) * kFactor;
    return {needs_x ? dz * sigmoid(apart) : Tensor(), needs_y ? dz * sigmoid(-apart) : Tensor()};
  }
};

template <class F>
struct Shift : F {
  static constexpr OpInfo info{.name = F::name, .differentiable = false, .elementwise = true};

  Tensor forward(Saved&, const Tensor& x, const Tensor& y) const {
    const Dtype dtype = result_dtype(x, y);
    WICK_CHECK(!is_floating(dtype) && dtype != kBool, info.name, ": needs integers: got ",
               x.dtype(), " and ", y.dtype());
    const Tensor z = empty_result(broadcast_shapes(info.name, x.shape(), y.shape()), dtype, {x, y});
    const F& f = *this;
    run_functor(f, dtype, z, x, y);
    return z;
  }
};

constexpr double kDegree = 0.0174532925199432958;  // pi / 180

std::pair<double, double> range_of(Dtype dtype) {
  switch (dtype) {
    case kFloat64:
      return {std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()};
    case kFloat16: return {-65504.0, 65504.0};
    case kBFloat16: return {-0x1.fep127, 0x1.fep127};
    default: return {std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max()};
  }
}

}  // namespace

Tensor exp2(const Tensor& x) { return apply(Unary<fn::Exp2>{}, x); }
Tensor log10(const Tensor& x) { return apply(Unary<fn::Log10>{}, x); }
Tensor asin(const Tensor& x) { return apply(Unary<fn::Asin>{}, x); }
Tensor acos(const Tensor& x) { return apply(Unary<fn::Acos>{}, x); }
Tensor atan(const Tensor& x) { return apply(Unary<fn::Atan>{}, x); }
Tensor sinh(const Tensor& x) { return apply(Unary<fn::Sinh>{}, x); }
Tensor cosh(const Tensor& x) { return apply(Unary<fn::Cosh>{}, x); }
Tensor asinh(const Tensor& x) { return apply(Unary<fn::Asinh>{}, x); }
Tensor acosh(const Tensor& x) { return apply(Unary<fn::Acosh>{}, x); }
Tensor atanh(const Tensor& x) { return apply(Unary<fn::Atanh>{}, x); }
Tensor erfc(const Tensor& x) { return apply(Unary<fn::Erfc>{}, x); }
Tensor erfinv(const Tensor& x) { return apply(Unary<fn::Erfinv>{}, x); }
Tensor lgamma(const Tensor& x) { return apply(Unary<fn::Lgamma>{}, x); }
Tensor digamma(const Tensor& x) { return apply(Unary<fn::Digamma>{}, x); }
Tensor trigamma(const Tensor& x) { return apply(Trigamma{}, x); }
Tensor sinc(const Tensor& x) { return apply(Unary<fn::Sinc>{}, x); }
Tensor logit(const Tensor& x, std::optional<double> eps) {
  check_defined("logit", x);
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    if (!eps) return log(in[0] / (1 - in[0]));
    // The lower bound goes first, which counts for an eps above 0.5.
    const Tensor p = where(in[0] < *eps, *eps, clamp_max(in[0], 1 - *eps));
    return log(p / (1 - p));
  });
}
Tensor frac(const Tensor& x) {
  WICK_CHECK(is_floating(x.dtype()), "frac: needs a floating dtype: got ", x.dtype());
  return apply(Unary<fn::Frac>{}, x);
}

Tensor round(const Tensor& x, int64_t decimals) {
  if (!is_floating(x.dtype())) {
    WICK_CHECK(decimals >= 0, "round: integers are not rounded to tens: got ", decimals,
               " decimals, expected 0 or more");
    return x.clone();
  }
  if (decimals == 0) return round(x);
  const double power = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  return computed_wide({x}, [=](const std::vector<Tensor>& in) {
    return decimals > 0 ? round(in[0] * power) / power : round(in[0] / power) * power;
  });
}

Tensor deg2rad(const Tensor& x) { return x.to(floating_dtype(x.dtype())) * kDegree; }
Tensor rad2deg(const Tensor& x) { return x.to(floating_dtype(x.dtype())) * (1 / kDegree); }

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  const auto [least, most] = range_of(x.dtype());
  Unary<fn::NanToNum> op;
  op.nan = nan;
  op.posinf = posinf.value_or(most);
  op.neginf = neginf.value_or(least);
  return apply(op, x);
}

Tensor copysign(const Tensor& x, const Tensor& y) { return apply(Binary<CopysignRule>{}, x, y); }
Tensor hypot(const Tensor& x, const Tensor& y) {
  WICK_CHECK(is_floating(result_dtype(x, y)), "hypot: needs a floating dtype: got ", x.dtype(),
             " and ", y.dtype());
  return apply(Binary<HypotRule>{}, x, y);
}
Tensor xlogy(const Tensor& x, const Tensor& y) { return apply(Binary<XlogyRule>{}, x, y); }
Tensor logaddexp(const Tensor& x, const Tensor& y) {
  return apply(Binary<LogSumRule<fn::Logaddexp>>{}, x, y);
}
Tensor logaddexp2(const Tensor& x, const Tensor& y) {
  return apply(Binary<LogSumRule<fn::Logaddexp2>>{}, x, y);
}

Tensor heaviside(const Tensor& x, const Tensor& values) {
  WICK_CHECK(x.dtype() == values.dtype(), "heaviside: dtypes differ: got ", x.dtype(), " and ",
             values.dtype());
  const NoGrad no_grad;
  return where(eq(x, 0), values, gt(x, 0).to(x.dtype()));
}

namespace {
// The other one where one is NaN.
Tensor unless_nan(Tensor (*choose)(const Tensor&, const Tensor&), const Tensor& x,
                  const Tensor& y) {
  return choose(where(isnan(x), y, x), where(isnan(y), x, y));
}

void check_bound(const Tensor& x, const Tensor& bound) {
  if (!bound.defined()) return;
  broadcast_shapes("clamp", x.shape(), bound.shape());
}
}  // namespace

Tensor fmax(const Tensor& x, const Tensor& y) {
  check_defined("fmax", x, y);
  return unless_nan(maximum, x, y);
}
Tensor fmin(const Tensor& x, const Tensor& y) {
  check_defined("fmin", x, y);
  return unless_nan(minimum, x, y);
}

template <class>
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  check_defined("clamp", x);
  WICK_CHECK(low.defined() || high.defined(),
             "clamp: no bound: got none, expected low, high or both");
  check_bound(x, low);
  check_bound(x, high);
  const Tensor above = low.defined() ? maximum(x, low) : x;
  return high.defined() ? minimum(above, high) : above;
}

template Tensor clamp<void>(const Tensor& x, const Tensor& low, const Tensor& high);

Tensor rsub(const Tensor& x, const Tensor& y, Scalar alpha) {
  check_defined("rsub", x, y);
  return sub(y, x, alpha);
}

Tensor isclose(const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
  check_defined("isclose", x, y);
  WICK_CHECK(rtol >= 0 && atol >= 0, "isclose: wrong tolerance: got ", rtol, " and ", atol,
             ", expected 0 or more");
  const NoGrad no_grad;
  const auto number = [](const Tensor& of) {
    return of.dtype() == kBool ? of.to(kInt64) : wide(of);
  };
  const Tensor apart = abs(number(x) - number(y));
  const Tensor close = eq(x, y) | (isfinite(apart) & (apart <= abs(number(y)) * rtol + atol));
  return equal_nan ? close | (isnan(x) & isnan(y)) : close;
}
Tensor isposinf(const Tensor& x) {
  check_defined("isposinf", x);
  return isinf(x) & gt(x, 0);
}
Tensor isneginf(const Tensor& x) {
  check_defined("isneginf", x);
  return isinf(x) & lt(x, 0);
}

Tensor bitwise_not(const Tensor& x) {
  return x.dtype() == kBool ? logical_not(x)
                            : bitwise_xor(x, scalar_tensor(-1, x.dtype(), x.device()));
}
Tensor bitwise_left_shift(const Tensor& x, const Tensor& y) {
  return apply(Shift<fn::LeftShift>{}, x, y);
}
Tensor bitwise_right_shift(const Tensor& x, const Tensor& y) {
  return apply(Shift<fn::RightShift>{}, x, y);
}

}  // namespace wick
