#include "wick/core/ops/elementwise.h"

#include <cmath>

#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"
#include "wick/kernels/elementwise_ops_math.h"

namespace wick {

template <>
constexpr auto functor_fields<fn::Add> = std::tuple{field("alpha", &fn::Add::alpha)};
template <>
constexpr auto functor_fields<fn::AddScalar> = std::tuple{field("other", &fn::AddScalar::other)};
template <>
constexpr auto functor_fields<fn::MulScalar> = std::tuple{field("other", &fn::MulScalar::other)};
template <>
constexpr auto functor_fields<fn::DivScalar> = std::tuple{field("other", &fn::DivScalar::other)};
template <>
constexpr auto functor_fields<fn::SubFromScalar> =
    std::tuple{field("other", &fn::SubFromScalar::other)};
template <>
constexpr auto functor_fields<fn::DivScalarBy> =
    std::tuple{field("other", &fn::DivScalarBy::other)};
template <>
constexpr auto functor_fields<fn::PowScalar> =
    std::tuple{field("exponent", &fn::PowScalar::exponent)};

template <>
constexpr AutocastPolicy functor_autocast<fn::Pow> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::PowScalar> = kFloat32OnGpus;
template <>
constexpr AutocastPolicy functor_autocast<fn::Atan2>{.cuda = Autocast::kPromote};

namespace {

struct AddRule : fn::Add {
  using Functor = fn::Add;
  static constexpr bool keeps_inputs = false;
  int roundings(size_t i) const { return i == 1 && alpha.real != 1 ? 1 : 0; }
  Gradients gradients(const Tensor& dz, const Tensor&, const Tensor&, bool, bool needs_y) const {
    return {dz, needs_y && alpha.real != 1 ? dz * alpha.real : dz};
  }
};

struct MulRule : fn::Mul {
  using Functor = fn::Mul;
  static constexpr bool keeps_inputs = true;
  int roundings(size_t) const { return 1; }
  Gradients gradients(const Tensor& dz, const Tensor& x, const Tensor& y, bool needs_x,
                      bool needs_y) const {
    return {needs_x ? dz * y : Tensor(), needs_y ? dz * x : Tensor()};
  }
};

struct DivRule : fn::Div {
  using Functor = fn::Div;
  static constexpr bool keeps_inputs = true;
  int roundings(size_t i) const { return i == 0 ? 1 : 3; }
  Gradients gradients(const Tensor& dz, const Tensor& x, const Tensor& y, bool needs_x,
                      bool needs_y) const {
    return {needs_x ? dz / y : Tensor(), needs_y ? -dz * ((x / y) / y) : Tensor()};
  }
};

struct PowRule : fn::Pow {
  using Functor = fn::Pow;
  static constexpr bool keeps_inputs = true;
  int roundings(size_t) const { return 4; }
  Gradients gradients(const Tensor& dz, const Tensor& x, const Tensor& y, bool needs_x,
                      bool needs_y) const {
    Tensor dx, dy;
    // y = 0 makes a constant, and 0^y with y >= 0 does not change with y: no 0 * infinity there.
    if (needs_x) dx = masked_fill(dz * (y * pow(x, y - 1)), eq(y, 0), 0);
    if (needs_y) {
      const Tensor constant = logical_and(eq(x, 0), ge(y, 0));
      dy = masked_fill(dz * (pow(x, y) * log(x)), constant, 0);
    }
    return {dx, dy};
  }
};

// Of maximum, with `loses` = lt, and minimum, with gt.
Gradients chosen_gradients(const Tensor& dz, const Tensor& x, const Tensor& y,
                           Tensor (*loses)(const Tensor&, const Tensor&), bool needs_x,
                           bool needs_y) {
  const Tensor shared = where(eq(x, y), dz * 0.5, dz);
  return {needs_x ? masked_fill(shared, loses(x, y), 0) : Tensor(),
          needs_y ? masked_fill(shared, loses(y, x), 0) : Tensor()};
}

// x^0.5: a power to autocast, where sqrt is none.
struct SquareRoot : Unary<fn::Sqrt> {
  static constexpr OpInfo info{.name = "pow_half", .autocast = kFloat32OnGpus};
};

struct Atan2Rule : fn::Atan2 {
  using Functor = fn::Atan2;
  static constexpr bool keeps_inputs = true;
  int roundings(size_t) const { return 5; }
  // y comes first.
  Gradients gradients(const Tensor& dz, const Tensor& y, const Tensor& x, bool needs_y,
                      bool needs_x) const {
    // The angle of the origin is 0 by convention, and has no slope.
    const Tensor is_origin = logical_and(eq(x, 0), eq(y, 0));
    const Tensor scaled = (dz / (square(x) + square(y))).masked_fill(is_origin, 0);
    return {needs_y ? scaled * x : Tensor(), needs_x ? -scaled * y : Tensor()};
  }
};

struct MaximumRule : fn::Maximum {
  using Functor = fn::Maximum;
  static constexpr bool keeps_inputs = true;
  int roundings(size_t) const { return 0; }
  Gradients gradients(const Tensor& dz, const Tensor& x, const Tensor& y, bool needs_x,
                      bool needs_y) const {
    return chosen_gradients(dz, x, y, lt, needs_x, needs_y);
  }
};

struct MinimumRule : fn::Minimum {
  using Functor = fn::Minimum;
  static constexpr bool keeps_inputs = true;
  int roundings(size_t) const { return 0; }
  Gradients gradients(const Tensor& dz, const Tensor& x, const Tensor& y, bool needs_x,
                      bool needs_y) const {
    return chosen_gradients(dz, x, y, gt, needs_x, needs_y);
  }
};

// The op of functor F, which has one constant.
template <template <class> class Op, class F>
Op<F> with(fn::Number F::*constant, Scalar value) {
  Op<F> op;
  op.*constant = to_number(value);
  return op;
}

template <template <class> class Op>
Op<AddRule> scaled_add(Scalar alpha) {
  Op<AddRule> op;
  op.alpha = to_number(alpha);
  return op;
}

Scalar negated(Scalar value) {
  if (!value.is_integral()) return -value.to_double();
  return static_cast<int64_t>(-static_cast<uint64_t>(value.to_int64()));
}

void check_alpha(const char* op, Dtype dtype, Scalar alpha) {
  WICK_CHECK(is_floating(dtype) || alpha.is_integral(), op,
             ": alpha must be whole where the result is of an integer dtype: got ",
             alpha.to_double());
}
void check_no_bool(const char* op, const Tensor& x) {
  WICK_CHECK(x.dtype(op) != kBool, op, ": not defined on bool: use logical_not or logical_xor");
}

void check_power(const char* op, const Tensor& x, Scalar y) {
  WICK_CHECK(is_floating(result_dtype(x, y, op)) || y.to_int64() >= 0, op,
             ": integers have no negative powers: got ", y.to_int64(), ", expected 0 or more");
}

// x as an op with the constant y takes it.
Tensor widened(const Tensor& x, Scalar y, const char* user = __builtin_FUNCTION()) {
  return x.to(result_dtype(x, y, user));
}

// Error unless an op with the constant y may change x.
void check_in_place(const char* op, const Tensor& x, Scalar y) {
  check_writable(op, x, x.shape(op), result_dtype(x, y));
}

}  // namespace

Tensor add(const Tensor& x, const Tensor& y, Scalar alpha) {
  check_alpha("add", result_dtype(x, y), alpha);
  return apply(scaled_add<Binary>(alpha), x, y);
}
Tensor add(const Tensor& x, Scalar y) {
  return apply(with<Unary>(&fn::AddScalar::other, y), widened(x, y));
}
Tensor sub(const Tensor& x, const Tensor& y, Scalar alpha) {
  check_no_bool("sub", x);
  check_no_bool("sub", y);
  return add(x, y, negated(alpha));
}
Tensor sub(const Tensor& x, Scalar y) {
  check_no_bool("sub", x);
  return add(x, negated(y));
}
Tensor sub(Scalar x, const Tensor& y) {
  check_no_bool("sub", y);
  return apply(with<Unary>(&fn::SubFromScalar::other, x), widened(y, x));
}
Tensor mul(const Tensor& x, const Tensor& y) { return apply(Binary<MulRule>{}, x, y); }
Tensor mul(const Tensor& x, Scalar y) {
  return apply(with<Unary>(&fn::MulScalar::other, y), widened(x, y));
}
Tensor div(const Tensor& x, const Tensor& y) { return apply(Binary<DivRule>{}, x, y); }
Tensor div(const Tensor& x, Scalar y) {
  check_defined("div", x);
  return apply(with<Unary>(&fn::DivScalar::other, y), x);
}
Tensor div(Scalar x, const Tensor& y) {
  check_defined("div", y);
  return apply(with<Unary>(&fn::DivScalarBy::other, x), y);
}
Tensor pow(const Tensor& x, const Tensor& y) { return apply(Binary<PowRule>{}, x, y); }
Tensor pow(const Tensor& x, Scalar y) {
  if (y.to_double() == 2) return square(widened(x, y));
  if (y.to_double() == 0.5) return apply(SquareRoot{}, x);
  check_power("pow", x, y);
  return apply(with<Unary>(&fn::PowScalar::exponent, y), widened(x, y));
}
Tensor atan2(const Tensor& y, const Tensor& x) { return apply(Binary<Atan2Rule>{}, y, x); }
Tensor maximum(const Tensor& x, const Tensor& y) { return apply(Binary<MaximumRule>{}, x, y); }
Tensor minimum(const Tensor& x, const Tensor& y) { return apply(Binary<MinimumRule>{}, x, y); }

namespace {
// x + value f(a, b)
template <class F>
Tensor add_result(const char* op, const Tensor& x, const Tensor& a, const Tensor& b, Scalar value,
                  const F& f) {
  check_defined(op, x, a, b);
  const OpInfo info{.name = op, .autocast = {.cuda = Autocast::kPromote}};
  const std::array<Tensor, 3> given{x, a, b};
  std::vector<Tensor> cast;
  const std::span<const Tensor> in = amp::cast_inputs(info, given, cast);
  check_alpha(op, promote(in[0].dtype(), promote(in[1].dtype(), in[2].dtype())), value);
  return computed_wide({in[0], in[1], in[2]}, [&](const std::vector<Tensor>& wide) {
    return add(wide[0], f(wide[1], wide[2]), value);
  });
}

// Of the two forms the one that is exact at the end that is nearer.
Tensor from_start(const Tensor& x, const Tensor& end, const Tensor& weight) {
  return x + weight * (end - x);
}
Tensor from_end(const Tensor& x, const Tensor& end, const Tensor& weight) {
  return end - (1 - weight) * (end - x);
}

void check_lerp(const Tensor& x, const Tensor& end, const Tensor& weight) {
  check_defined("lerp", x, end, weight);
  WICK_CHECK(is_floating(x.dtype()) && end.dtype() == x.dtype() && weight.dtype() == x.dtype(),
             "lerp: needs one floating dtype: got ", x.dtype(), ", ", end.dtype(), " and ",
             weight.dtype());
}
}  // namespace

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  return add_result("addcmul", x, a, b, value,
                    [](const Tensor& p, const Tensor& q) { return mul(p, q); });
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  check_defined("addcdiv", x, a, b);
  WICK_CHECK(is_floating(a.dtype()) || is_floating(b.dtype()),
             "addcdiv: integers are not divided: got ", a.dtype(), " and ", b.dtype(),
             ", expected a floating dtype: convert one, or use div and add");
  return add_result("addcdiv", x, a, b, value,
                    [](const Tensor& p, const Tensor& q) { return div(p, q); });
}
Tensor lerp(const Tensor& x, const Tensor& end, const Tensor& weight) {
  check_lerp(x, end, weight);
  return computed_wide({x, end, weight}, [](const std::vector<Tensor>& in) {
    return where(lt(abs(in[2]), 0.5), from_start(in[0], in[1], in[2]),
                 from_end(in[0], in[1], in[2]));
  });
}
Tensor lerp(const Tensor& x, const Tensor& end, double weight) {
  check_lerp(x, end, end);
  return computed_wide({x, end}, [=](const std::vector<Tensor>& in) {
    const Tensor w = scalar_tensor(weight, in[0].dtype(), in[0].device());
    return std::fabs(weight) < 0.5 ? from_start(in[0], in[1], w) : from_end(in[0], in[1], w);
  });
}

const Tensor& Tensor::add_(const Tensor& other, Scalar alpha) const {
  check_alpha("add_", dtype(), alpha);
  apply(scaled_add<BinaryInPlace>(alpha), *this, other);
  return *this;
}
const Tensor& Tensor::add_(Scalar other) const {
  check_in_place("add_", *this, other);
  apply(with<UnaryInPlace>(&fn::AddScalar::other, other), *this);
  return *this;
}
const Tensor& Tensor::sub_(const Tensor& other, Scalar alpha) const {
  check_no_bool("sub_", *this);
  return add_(other, negated(alpha));
}
const Tensor& Tensor::sub_(Scalar other) const {
  check_no_bool("sub_", *this);
  return add_(negated(other));
}
const Tensor& Tensor::pow_(Scalar exponent) const {
  check_power("pow_", *this, exponent);
  check_in_place("pow_", *this, exponent);
  apply(with<UnaryInPlace>(&fn::PowScalar::exponent, exponent), *this);
  return *this;
}
const Tensor& Tensor::mul_(const Tensor& other) const {
  apply(BinaryInPlace<MulRule>{}, *this, other);
  return *this;
}
const Tensor& Tensor::mul_(Scalar other) const {
  check_in_place("mul_", *this, other);
  apply(with<UnaryInPlace>(&fn::MulScalar::other, other), *this);
  return *this;
}
const Tensor& Tensor::div_(const Tensor& other) const {
  apply(BinaryInPlace<DivRule>{}, *this, other);
  return *this;
}
const Tensor& Tensor::div_(Scalar other) const {
  check_writable("div_", *this, shape(), floating_dtype(dtype()));
  apply(with<UnaryInPlace>(&fn::DivScalar::other, other), *this);
  return *this;
}

}  // namespace wick
