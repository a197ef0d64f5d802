#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/random.h"
#include "wick/kernels/elementwise_ops_shrink.h"

// Activation functions with thresholds, and what is made of exp.
namespace wick {

template <>
constexpr auto functor_fields<fn::Hardshrink> = std::tuple{field("lambd", &fn::Hardshrink::lambd)};
template <>
constexpr auto functor_fields<fn::Softshrink> = std::tuple{field("lambd", &fn::Softshrink::lambd)};
template <>
constexpr auto functor_fields<fn::Threshold> = std::tuple{
    field("threshold", &fn::Threshold::threshold), field("value", &fn::Threshold::value)};
template <>
constexpr auto functor_fields<fn::Hardtanh> =
    std::tuple{field("low", &fn::Hardtanh::low), field("high", &fn::Hardtanh::high)};
template <>
constexpr auto functor_fields<fn::ScaledElu> =
    std::tuple{field("alpha", &fn::ScaledElu::alpha), field("scale", &fn::ScaledElu::scale),
               field("input_scale", &fn::ScaledElu::input_scale)};

namespace {
Tensor scaled_elu(const Tensor& x, double alpha, double scale, double input_scale) {
  Unary<fn::ScaledElu> op;
  op.alpha = alpha;
  op.scale = scale;
  op.input_scale = input_scale;
  return apply(op, x);
}
}  // namespace

Tensor selu(const Tensor& x) {
  check_defined("selu", x);
  return scaled_elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
}
Tensor celu(const Tensor& x, double alpha) {
  check_defined("celu", x);
  WICK_CHECK(alpha != 0, "celu: alpha: got 0, expected another number");
  return scaled_elu(x, alpha, 1, 1 / alpha);
}
Tensor logsigmoid(const Tensor& x) { return apply(Unary<fn::LogSigmoid>{}, x); }
Tensor hardtanh(const Tensor& x, double low, double high) {
  WICK_CHECK(low <= high, "hardtanh: wrong range: got ", low, " to ", high,
             ", expected the lower bound first");
  Unary<fn::Hardtanh> op;
  op.low = to_number(low);
  op.high = to_number(high);
  return apply(op, x);
}
Tensor hardshrink(const Tensor& x, double lambd) {
  Unary<fn::Hardshrink> op;
  op.lambd = lambd;
  return apply(op, x);
}
Tensor softshrink(const Tensor& x, double lambd) {
  WICK_CHECK(lambd >= 0, "softshrink: lambd: got ", lambd, ", expected 0 or more");
  Unary<fn::Softshrink> op;
  op.lambd = lambd;
  return apply(op, x);
}
Tensor tanhshrink(const Tensor& x) { return apply(Unary<fn::Tanhshrink>{}, x); }
Tensor threshold(const Tensor& x, Scalar threshold, Scalar value) {
  Unary<fn::Threshold> op;
  op.threshold = to_number(threshold);
  op.value = to_number(value);
  return apply(op, x);
}
Tensor rrelu(const Tensor& x, double lower, double upper, bool training, Generator* generator) {
  check_defined("rrelu", x);
  WICK_CHECK(lower <= upper, "rrelu: wrong range: got ", lower, " to ", upper,
             ", expected the lower bound first");
  if (!training) return leaky_relu(x, (lower + upper) / 2);
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    const Tensor slope = rand_like(in[0].detach(), generator) * (upper - lower) + lower;
    return where(ge(in[0], 0), in[0], in[0] * slope);
  });
}

}  // namespace wick
