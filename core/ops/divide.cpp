#include "wick/core/ops/divide.h"

#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/reduce.h"
#include "wick/kernels/elementwise_ops_special.h"

namespace wick {

namespace {

// A quotient: a step function.
template <class F>
struct QuotientRule : F {
  using Functor = F;
  static constexpr bool keeps_inputs = false;
  int roundings(size_t) const { return 0; }
  Gradients gradients(const Tensor& dz, const Tensor&, const Tensor&, bool, bool) const {
    return {dz * 0, dz * 0};
  }
};

// What `Quotient` leaves of x.
template <class F, Rounding kRounding>
struct RestRule : F {
  using Functor = F;
  static constexpr bool keeps_inputs = true;
  int roundings(size_t i) const { return i == 0 ? 0 : 3; }
  Gradients gradients(const Tensor& dz, const Tensor& x, const Tensor& y, bool,
                      bool needs_y) const {
    return {dz, needs_y ? -dz * div(x, y, kRounding) : Tensor()};
  }
};

template <class Rule>
Tensor divided(const Tensor& x, const Tensor& y) {
  const Dtype dtype = result_dtype(x, y, Rule::name);
  WICK_CHECK(dtype != kBool, Rule::name, ": not defined on bool: got two bool tensors");
  if (!is_floating(dtype) && y.device().is_cpu()) {
    WICK_CHECK(!any(eq(y, 0)).item<bool>(), Rule::name, ": division of integers by 0");
  }
  return apply(Binary<Rule>{}, x, y);
}

// By a number: the host knows whether it is 0, so that a trace needs to read nothing.
template <class Rule>
Tensor divided(const Tensor& x, Scalar y) {
  const Dtype dtype = result_dtype(x, y, Rule::name);
  WICK_CHECK(dtype != kBool, Rule::name, ": not defined on bool: got a bool tensor and a bool");
  if (!is_floating(dtype) && x.device().is_cpu()) {
    // As an integer of that width.
    const uint64_t digits = static_cast<uint64_t>(y.to_int64()) << (64 - 8 * size_of(dtype));
    WICK_CHECK(digits != 0, Rule::name, ": division of integers by 0");
  }
  return apply(Binary<Rule>{}, x, scalar_tensor(y, dtype, x.device()));
}

}  // namespace

Tensor div(const Tensor& x, const Tensor& y, Rounding rounding) {
  check_defined("div", x, y);
  if (rounding == Rounding::kFloor) return floor_divide(x, y);
  return divided<QuotientRule<fn::TruncDivide>>(x, y);
}
Tensor floor_divide(const Tensor& x, const Tensor& y) {
  return divided<QuotientRule<fn::FloorDivide>>(x, y);
}
Tensor remainder(const Tensor& x, const Tensor& y) {
  return divided<RestRule<fn::Remainder, Rounding::kFloor>>(x, y);
}
Tensor fmod(const Tensor& x, const Tensor& y) {
  return divided<RestRule<fn::Fmod, Rounding::kTrunc>>(x, y);
}

Tensor div(const Tensor& x, Scalar y, Rounding rounding) {
  check_defined("div", x);
  if (rounding == Rounding::kFloor) return floor_divide(x, y);
  return divided<QuotientRule<fn::TruncDivide>>(x, y);
}
Tensor floor_divide(const Tensor& x, Scalar y) {
  return divided<QuotientRule<fn::FloorDivide>>(x, y);
}
Tensor remainder(const Tensor& x, Scalar y) {
  return divided<RestRule<fn::Remainder, Rounding::kFloor>>(x, y);
}
Tensor fmod(const Tensor& x, Scalar y) {
  return divided<RestRule<fn::Fmod, Rounding::kTrunc>>(x, y);
}

}  // namespace wick
