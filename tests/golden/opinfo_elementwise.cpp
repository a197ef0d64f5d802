// Elementwise functions: arithmetic, mathematics, comparisons, activations.
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/special.h"
#include "wick/tests/golden/opinfo.h"

namespace wick::golden {
namespace {

Spellings of_one(std::initializer_list<std::pair<const char*, Unary*>> functions) {
  Spellings all;
  for (const auto& [name, function] : functions) all[name] = {call(function, "input")};
  return all;
}

Spellings of_two(std::initializer_list<std::pair<const char*, Binary*>> functions) {
  Spellings all;
  for (const auto& [name, function] : functions) all[name] = {call(function, "input other")};
  return all;
}

// The operators that Python calls with the operands exchanged.
Spellings reversed(std::initializer_list<std::pair<const char*, Binary*>> functions) {
  Spellings all;
  for (const auto& [name, function] : functions) all[name] = {call(function, "other input")};
  for (auto& [name, ways] : all) {
    const Spelling straight = ways[0];
    ways = {{"input other", [straight](const std::vector<Argument>& a) {
               return straight.run({a[1], a[0]});
             }}};
  }
  return all;
}

Tensor itself(const Tensor& x) { return x; }

const Opinfo unary_ops(of_one({
    {"abs", abs},
    {"acos", acos},
    {"acosh", acosh},
    {"asin", asin},
    {"asinh", asinh},
    {"atan", atan},
    {"atanh", atanh},
    {"bitwise_not", bitwise_not},
    {"ceil", ceil},
    {"conj", itself},  // of real numbers
    {"conj_physical", itself},
    {"cos", cos},
    {"cosh", cosh},
    {"deg2rad", deg2rad},
    {"digamma", digamma},
    {"erf", erf},
    {"erfc", erfc},
    {"erfinv", erfinv},
    {"exp", exp},
    {"exp2", exp2},
    {"expm1", expm1},
    {"floor", floor},
    {"frac", frac},
    {"isfinite", isfinite},
    {"isinf", isinf},
    {"isnan", isnan},
    {"isneginf", isneginf},
    {"isposinf", isposinf},
    {"lgamma", lgamma},
    {"log", log},
    {"log10", log10},
    {"log1p", log1p},
    {"log2", log2},
    {"logical_not", logical_not},
    {"neg", neg},
    {"positive", itself},
    {"rad2deg", rad2deg},
    {"real", itself},
    {"reciprocal", reciprocal},
    {"resolve_conj", itself},
    {"resolve_neg", itself},
    {"rsqrt", rsqrt},
    {"sgn", sgn},
    {"sigmoid", sigmoid},
    {"sign", sign},
    {"signbit", signbit},
    {"sin", sin},
    {"sinc", sinc},
    {"sinh", sinh},
    {"special.entr", entr},
    {"special.ndtr", ndtr},
    {"sqrt", sqrt},
    {"square", square},
    {"tan", tan},
    {"tanh", tanh},
    {"trunc", trunc},
    {"nn.functional.hardsigmoid", hardsigmoid},
    {"nn.functional.hardswish", hardswish},
    {"nn.functional.logsigmoid", logsigmoid},
    {"nn.functional.mish", mish},
    {"nn.functional.relu", relu},
    {"nn.functional.relu6", relu6},
    {"nn.functional.selu", selu},
    {"nn.functional.silu", silu},
    {"nn.functional.softsign", softsign},
    {"nn.functional.tanhshrink", tanhshrink},
}));

const Opinfo binary_ops(of_two({
    {"atan2", atan2},
    {"bitwise_and", bitwise_and},
    {"bitwise_left_shift", bitwise_left_shift},
    {"bitwise_or", bitwise_or},
    {"bitwise_right_shift", bitwise_right_shift},
    {"bitwise_xor", bitwise_xor},
    {"clamp_max", clamp_max},
    {"clamp_min", clamp_min},
    {"copysign", copysign},
    {"eq", eq},
    {"float_power", float_power},
    {"floor_divide", floor_divide},
    {"fmax", fmax},
    {"fmin", fmin},
    {"fmod", fmod},
    {"ge", ge},
    {"gt", gt},
    {"heaviside", heaviside},
    {"hypot", hypot},
    {"ldexp", ldexp},
    {"le", le},
    {"logaddexp", logaddexp},
    {"logaddexp2", logaddexp2},
    {"logical_and", logical_and},
    {"logical_or", logical_or},
    {"logical_xor", logical_xor},
    {"lt", lt},
    {"maximum", maximum},
    {"minimum", minimum},
    {"mul", mul},
    {"ne", ne},
    {"pow", pow},
    {"remainder", remainder},
    {"special.xlog1py", xlog1py},
    {"true_divide", div},
    {"xlogy", xlogy},
}));

const Opinfo reversed_ops(reversed({
    {"__rand__", bitwise_and},
    {"__rdiv__", div},
    {"__rmod__", remainder},
    {"__rmul__", mul},
    {"__ror__", bitwise_or},
    {"__rpow__", pow},
    {"__rxor__", bitwise_xor},
    {"__radd__", +[](const Tensor& x, const Tensor& y) { return x + y; }},
    {"__rsub__", +[](const Tensor& x, const Tensor& y) { return x - y; }},
}));

const Opinfo elementwise_ops({
    {"add", {call<Tensor(const Tensor&, const Tensor&, Scalar)>(add, "input other alpha=1")}},
    {"sub", {call<Tensor(const Tensor&, const Tensor&, Scalar)>(sub, "input other alpha=1")}},
    {"rsub", {call(rsub, "input other alpha=1")}},
    {"add", {call<Tensor(const Tensor&, Scalar)>(add, "input other")}},
    {"div",
     {call<Binary>(div, "input other !rounding_mode=null"),
      call<Tensor(const Tensor&, const Tensor&, Rounding)>(div, "input other rounding_mode")}},
    {"addcmul", {call(addcmul, "input tensor1 tensor2 value=1")}},
    {"addcdiv", {call(addcdiv, "input tensor1 tensor2 value=1")}},
    {"lerp",
     {call<Tensor(const Tensor&, const Tensor&, const Tensor&)>(lerp, "input end weight"),
      call<Tensor(const Tensor&, const Tensor&, double)>(lerp, "input end weight")}},
    {"clamp",
     {call<Tensor(const Tensor&, const Tensor&, const Tensor&)>(clamp, "input min=null max=null"),
      call<Tensor(const Tensor&, std::optional<Scalar>, std::optional<Scalar>)>(
          clamp, "input min=null max=null")}},
    {"isclose", {call(isclose, "input other rtol=1e-5 atol=1e-8 equal_nan=false")}},
    {"allclose",
     {call<bool(const Tensor&, const Tensor&, double, double, bool)>(
         allclose, "input other rtol=1e-5 atol=1e-8 equal_nan=false")}},
    {"equal", {call<bool(const Tensor&, const Tensor&)>(equal, "input other")}},
    {"copysign",
     {call(
         +[](const Tensor& x, Scalar y) {
           return copysign(x, scalar_tensor(y, x.dtype(), x.device()));
         },
         "input other")}},
    {"logit", {call(logit, "input eps=null")}},
    {"mvlgamma", {call(mvlgamma, "input p")}},
    {"nan_to_num", {call(nan_to_num, "input nan=0.0 posinf=null neginf=null")}},
    {"round",
     {call<Unary>(round, "input"), call<Tensor(const Tensor&, int64_t)>(round, "input decimals")}},
    {"max", {call<Binary>(maximum, "input other")}},
    {"min", {call<Binary>(minimum, "input other")}},
    {"where",
     // The sample holds the condition second.
     {call(
         +[](const Tensor& x, const Tensor& condition, const Tensor& y) {
           return where(condition, x, y);
         },
         "input condition other")}},
    {"masked_fill",
     {call<Tensor(const Tensor&, const Tensor&, Scalar)>(masked_fill, "input mask value"),
      call<Tensor(const Tensor&, const Tensor&, const Tensor&)>(masked_fill, "input mask value")}},
    {"fill",
     {call(
         +[](const Tensor& x, Scalar value) { return full_like(x, value); }, "input value")}},
});

const Opinfo activations({
    {"nn.functional.celu", {call(celu, "input alpha=1.0 !inplace=false")}},
    {"nn.functional.elu", {call(elu, "input alpha=1.0 !inplace=false")}},
    {"nn.functional.gelu", {call(gelu, "input approximate=\"none\"")}},
    {"nn.functional.glu", {call(glu, "input dim=-1")}},
    {"nn.functional.hardshrink", {call(hardshrink, "input lambd=0.5")}},
    {"nn.functional.hardtanh", {call(hardtanh, "input min_val=-1.0 max_val=1.0 !inplace=false")}},
    {"nn.functional.leaky_relu", {call(leaky_relu, "input negative_slope=0.01 !inplace=false")}},
    {"nn.functional.prelu", {call(prelu, "input weight")}},
    {"nn.functional.rrelu",
     {call(
         +[](const Tensor& x, double lower, double upper, bool training) {
           return rrelu(x, lower, upper, training);
         },
         "input lower=0.125 upper=0.3333333333333333 training=false !inplace=false")}},
    {"nn.functional.softplus", {call(softplus, "input beta=1 threshold=20")}},
    {"nn.functional.softshrink", {call(softshrink, "input lambd=0.5")}},
    {"nn.functional.threshold", {call(threshold, "input threshold value !inplace=false")}},
});

}  // namespace
}  // namespace wick::golden
