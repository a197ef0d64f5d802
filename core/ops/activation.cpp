#include "wick/core/ops/activation.h"

#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/elementwise.h"
#include "wick/kernels/elementwise_ops_activation.h"

namespace wick {

template <>
constexpr auto functor_fields<fn::Softplus> =
    std::tuple{field("beta", &fn::Softplus::beta), field("threshold", &fn::Softplus::threshold)};
template <>
constexpr auto functor_fields<fn::LeakyRelu> =
    std::tuple{field("negative_slope", &fn::LeakyRelu::negative_slope)};
template <>
constexpr auto functor_fields<fn::Elu> = std::tuple{field("alpha", &fn::Elu::alpha)};
template <>
constexpr auto functor_fields<fn::Clamp> =
    std::tuple{field("low", &fn::Clamp::low), field("high", &fn::Clamp::high)};

template <>
constexpr AutocastPolicy functor_autocast<fn::Softplus> = kFloat32OnGpus;

Tensor relu(const Tensor& x) { return apply(Unary<fn::Relu>{}, x); }
Tensor relu6(const Tensor& x) { return apply(Unary<fn::Relu6>{}, x); }
Tensor gelu(const Tensor& x, GeluApproximation approximation) {
  if (approximation == GeluApproximation::kTanh) return apply(Unary<fn::GeluTanh>{}, x);
  return apply(Unary<fn::Gelu>{}, x);
}
Tensor silu(const Tensor& x) { return apply(Unary<fn::Silu>{}, x); }
Tensor mish(const Tensor& x) { return apply(Unary<fn::Mish>{}, x); }
Tensor softsign(const Tensor& x) { return apply(Unary<fn::Softsign>{}, x); }
Tensor hardswish(const Tensor& x) { return apply(Unary<fn::Hardswish>{}, x); }
Tensor hardsigmoid(const Tensor& x) { return apply(Unary<fn::Hardsigmoid>{}, x); }
Tensor softplus(const Tensor& x, double beta, double threshold) {
  Unary<fn::Softplus> op;
  op.beta = beta;
  op.threshold = threshold;
  return apply(op, x);
}
Tensor leaky_relu(const Tensor& x, double negative_slope) {
  Unary<fn::LeakyRelu> op;
  op.negative_slope = negative_slope;
  return apply(op, x);
}
Tensor elu(const Tensor& x, double alpha) {
  Unary<fn::Elu> op;
  op.alpha = alpha;
  return apply(op, x);
}

namespace {
struct Prelu {
  static constexpr OpInfo info{
      .name = "prelu",
      .autocast = AutocastPolicy{.cuda = Autocast::kLower, .cpu = Autocast::kLower},
      .broadcasts = true};

  Tensor forward(Saved& saved, const Tensor& x, const Tensor& weight) const {
    saved.save(x, weight);
    return where(x.gt(0), x, x * weight);
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    const Tensor x = saved[0], is_positive = x.gt(0);
    return {where(is_positive, dy, dy * saved[1]).to(x.dtype()),
            where(is_positive, 0, dy * x).to(saved.input(1).dtype)};
  }
};
}  // namespace

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const int64_t channels = x.rank() >= 2 ? x.size(1) : 1;
  WICK_CHECK(weight.rank() <= 1 && (weight.numel() == 1 || weight.numel() == channels),
             "prelu: wrong weight: got shape ", weight.shape(), ", expected [1] or [", channels,
             "]");
  Shape shape = x.rank() >= 2 ? Shape{1, weight.numel()} : Shape{};
  for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(1);
  return apply(Prelu{}, x, weight.reshape(shape));
}

Tensor glu(const Tensor& x, int64_t axis) {
  const int wrapped = wrap_axis("glu", axis, x.rank());
  const int64_t size = x.size(wrapped);
  WICK_CHECK(size % 2 == 0, "glu: axis ", wrapped, " cannot be halved: got shape ", x.shape());
  return x.narrow(wrapped, 0, size / 2) * sigmoid(x.narrow(wrapped, size / 2, size / 2));
}

namespace {
// Gives `op` its bounds and returns the dtype of its result.
template <class Op>
Dtype set_bounds(const char* name, Op& op, const Tensor& x, std::optional<Scalar> low,
                 std::optional<Scalar> high) {
  WICK_CHECK(low || high, name, ": no bound: got none, expected low, high or both");
  if (low) op.low = to_number(*low);
  if (high) op.high = to_number(*high);
  return promote(low ? result_dtype(x, *low, name) : x.dtype(name),
                 high ? result_dtype(x, *high, name) : x.dtype(name));
}
}  // namespace

Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  Unary<fn::Clamp> op;
  return apply(op, x.to(set_bounds("clamp", op, x, low, high)));
}

const Tensor& Tensor::relu_() const {
  apply(UnaryInPlace<fn::Relu>{}, *this);
  return *this;
}
const Tensor& Tensor::clamp_(std::optional<Scalar> low, std::optional<Scalar> high) const {
  UnaryInPlace<fn::Clamp> op;
  check_writable("clamp_", *this, shape(), set_bounds("clamp_", op, *this, low, high));
  apply(op, *this);
  return *this;
}

}  // namespace wick
