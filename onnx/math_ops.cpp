#include "wick/core/core.h"
#include "wick/onnx/detail/call.h"

// Ops of each element.
namespace wick::onnx::detail {

namespace {

using Results = std::vector<Tensor>;
using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

template <Unary f>
Results unary(Call& call) {
  return one(f(call[0]));
}
template <Binary f>
Results binary(Call& call) {
  return one(f(call[0], call[1]));
}
// Of any number of inputs, from left to right.
template <Binary f>
Results fold(Call& call) {
  Tensor result = call[0];
  for (size_t i = 1; i < call.num_inputs(); ++i) result = f(result, call[i]);
  return one(result);
}

Tensor plus(const Tensor& x, const Tensor& y) { return add(x, y); }
Tensor minus(const Tensor& x, const Tensor& y) { return sub(x, y); }
Tensor power(const Tensor& x, const Tensor& y) { return pow(x, y).to(x.dtype()); }
// Of integers the quotient is rounded towards 0.
Tensor quotient(const Tensor& x, const Tensor& y) {
  return is_floating(x.dtype()) ? div(x, y) : div(x, y, Rounding::kTrunc);
}

Results pow_op(Call& call) {
  // An exponent that is one known number has the faster form.
  if (call.is_on_host(1) && !call.is_on_host(0) && call.host(1).numel() == 1 &&
      is_floating(call[0].dtype())) {
    if (call.host(1).rank() <= call[0].rank()) return one(pow(call[0], call.number_of(1)));
  }
  return binary<power>(call);
}

Results mod_op(Call& call) {
  return one(call.integer("fmod", 0) != 0 ? fmod(call[0], call[1]) : remainder(call[0], call[1]));
}

Results leaky_relu_op(Call& call) { return one(leaky_relu(call[0], call.real("alpha", 0.01))); }
Results elu_op(Call& call) { return one(elu(call[0], call.real("alpha", 1))); }
Results celu_op(Call& call) { return one(celu(call[0], call.real("alpha", 1))); }

Results prelu_op(Call& call) { return one(where(gt(call[0], 0), call[0], mul(call[0], call[1]))); }

bool is_about(double a, double b) { return std::abs(a - b) < 1e-6; }

Results hard_sigmoid_op(Call& call) {
  const double alpha = call.real("alpha", 0.2), beta = call.real("beta", 0.5);
  if (is_about(alpha, 1.0 / 6) && is_about(beta, 0.5)) return one(hardsigmoid(call[0]));
  return one(clamp(call[0] * alpha + beta, 0, 1));
}

Results softplus_op(Call& call) { return one(softplus(call[0])); }

Results gelu_op(Call& call) {
  const std::string how = call.text("approximate", "none");
  WICK_CHECK(how == "none" || how == "tanh", "attribute approximate: got ", how,
             ", expected none or tanh");
  return one(gelu(call[0], how == "none" ? GeluApproximation::kNone : GeluApproximation::kTanh));
}

std::optional<Scalar> bound(Call& call, size_t i) {
  if (!call.has(i)) return {};
  if (is_floating(call.host(i).dtype())) return Scalar(call.number_of(i));
  return Scalar(static_cast<int64_t>(call.number_of(i)));
}

Results clip_op(Call& call) {
  const std::optional<Scalar> low = bound(call, 1), high = bound(call, 2);
  if (!low && !high) return one(call[0]);
  const bool is_relu6 = low && high && low->to_double() == 0 && high->to_double() == 6;
  // PyTorch writes relu6 and hardtanh so; their gradient is 0 at the bounds.
  if (is_relu6 && is_floating(call[0].dtype())) return one(relu6(call[0]));
  return one(clamp(call[0], low, high));
}

Results where_op(Call& call) { return one(where(call[0], call[1], call[2])); }

Results cast_op(Call& call) { return one(call[0].to(dtype_of_number(call.integer("to")))); }
Results cast_like_op(Call& call) { return one(call[0].to(call[1].dtype())); }
Results identity_op(Call& call) { return one(call[0]); }

Results dropout_op(Call& call) {
  const double ratio = call.has(1) ? call.number_of(1) : 0.5;
  return one(call.training() ? dropout(call[0], ratio) : call[0]);
}

constexpr OpEntry kMathOps[] = {
    {"Add", 2, 2, binary<plus>},
    {"Sub", 2, 2, binary<minus>},
    {"Mul", 2, 2, binary<mul>},
    {"Div", 2, 2, binary<quotient>},
    {"Pow", 2, 2, pow_op, 1},
    {"Mod", 2, 2, mod_op},
    {"Max", 1, kAny, fold<maximum>},
    {"Min", 1, kAny, fold<minimum>},
    {"Sum", 1, kAny, fold<plus>},
    {"Equal", 2, 2, binary<eq>},
    {"Less", 2, 2, binary<lt>},
    {"LessOrEqual", 2, 2, binary<le>},
    {"Greater", 2, 2, binary<gt>},
    {"GreaterOrEqual", 2, 2, binary<ge>},
    {"And", 2, 2, binary<logical_and>},
    {"Or", 2, 2, binary<logical_or>},
    {"Not", 1, 1, unary<logical_not>},
    {"Neg", 1, 1, unary<neg>},
    {"Abs", 1, 1, unary<abs>},
    {"Sign", 1, 1, unary<sign>},
    {"Sqrt", 1, 1, unary<sqrt>},
    {"Reciprocal", 1, 1, unary<reciprocal>},
    {"Exp", 1, 1, unary<exp>},
    {"Log", 1, 1, unary<log>},
    {"Sin", 1, 1, unary<sin>},
    {"Cos", 1, 1, unary<cos>},
    {"Erf", 1, 1, unary<erf>},
    {"Tanh", 1, 1, unary<tanh>},
    {"Sigmoid", 1, 1, unary<sigmoid>},
    {"Floor", 1, 1, unary<floor>},
    {"Ceil", 1, 1, unary<ceil>},
    {"Round", 1, 1, unary<round>},
    {"Relu", 1, 1, unary<relu>},
    {"LeakyRelu", 1, 1, leaky_relu_op},
    {"Elu", 1, 1, elu_op},
    {"Celu", 1, 1, celu_op},
    {"PRelu", 2, 2, prelu_op},
    {"HardSigmoid", 1, 1, hard_sigmoid_op},
    {"HardSwish", 1, 1, unary<hardswish>},
    {"Mish", 1, 1, unary<mish>},
    {"Softplus", 1, 1, softplus_op},
    {"Softsign", 1, 1, unary<softsign>},
    {"Gelu", 1, 1, gelu_op},
    {"Clip", 1, 3, clip_op, 1},
    {"Where", 3, 3, where_op},
    {"Cast", 1, 1, cast_op},
    {"CastLike", 2, 2, cast_like_op},
    {"Identity", 1, 1, identity_op},
    {"Dropout", 1, 3, dropout_op, 1},
};

}  // namespace

std::span<const OpEntry> math_ops() { return kMathOps; }

}  // namespace wick::onnx::detail
