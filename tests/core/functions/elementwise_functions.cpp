#include "wick/tests/core/functions/functions.h"

// Functions of each element: activation.h, compare.h, divide.h, elementwise.h, special.h.
namespace wick::testing {
namespace {

using T = const Tensor&;

std::vector<Function> activations() {
  const Tensor x = ones({2, 4}, kFloat64);
  return {
      unary("relu", relu),
      unary("relu6", relu6),
      entry("gelu", {x}, [](T in) { return gelu(in); }),
      unary("silu", silu),
      unary("mish", mish),
      unary("softsign", softsign),
      unary("hardswish", hardswish),
      unary("hardsigmoid", hardsigmoid),
      entry("softplus", {x}, [](T in) { return softplus(in); }),
      entry("leaky_relu", {x}, [](T in) { return leaky_relu(in); }),
      entry("elu", {x}, [](T in) { return elu(in); }),
      unary("selu", selu),
      entry("celu", {x}, [](T in) { return celu(in); }),
      unary("logsigmoid", logsigmoid),
      entry("hardtanh", {x}, [](T in) { return hardtanh(in); }),
      entry("hardshrink", {x}, [](T in) { return hardshrink(in); }),
      entry("softshrink", {x}, [](T in) { return softshrink(in); }),
      unary("tanhshrink", tanhshrink),
      entry("threshold", {x}, [](T in) { return threshold(in, 1, 2); }),
      entry("rrelu", {x}, [](T in) { return rrelu(in); }),
      binary("prelu", prelu, x, ones({4}, kFloat64)),
      entry("glu", {x}, [](T in) { return glu(in); }),
  };
}

std::vector<Function> comparisons() {
  const Tensor x = ones({2, 3}, kFloat64), mask = ones({2, 3}, kBool);
  const Tensor whole = ones({2, 3}, kInt64);
  return {
      binary("eq", eq),
      entry("eq", {x}, [](T in) { return eq(in, 1); }),
      binary("ne", ne),
      entry("ne", {x}, [](T in) { return ne(in, 1); }),
      binary("lt", lt),
      entry("lt", {x}, [](T in) { return lt(in, 1); }),
      binary("le", le),
      entry("le", {x}, [](T in) { return le(in, 1); }),
      binary("gt", gt),
      entry("gt", {x}, [](T in) { return gt(in, 1); }),
      binary("ge", ge),
      entry("ge", {x}, [](T in) { return ge(in, 1); }),
      binary("logical_and", logical_and),
      binary("logical_or", logical_or),
      binary("logical_xor", logical_xor),
      unary("logical_not", logical_not),
      binary("bitwise_and", bitwise_and, whole, whole),
      binary("bitwise_or", bitwise_or, whole, whole),
      binary("bitwise_xor", bitwise_xor, whole, whole),
      unary("isnan", isnan),
      unary("isinf", isinf),
      unary("isfinite", isfinite),
      entry("equal", {x, x}, [](T a, T b) { return full({}, equal(a, b), kBool); }),
      entry("allclose", {x, x}, [](T a, T b) { return full({}, allclose(a, b), kBool); }),
      entry("where", {mask, x, x}, [](T c, T a, T b) { return where(c, a, b); }),
      entry("where", {mask, x}, [](T c, T a) { return where(c, a, 1); }),
      entry("where", {mask, x}, [](T c, T b) { return where(c, 1, b); }),
      entry("masked_fill", {x, mask}, [](T in, T m) { return masked_fill(in, m, 1); }),
      entry("masked_fill", {x, mask, ones({}, kFloat64)},
            [](T in, T m, T value) { return masked_fill(in, m, value); }),
  };
}

std::vector<Function> arithmetic() {
  const Tensor x = ones({2, 3}, kFloat64);
  return {
      entry("add", {x, x}, [](T a, T b) { return add(a, b); }),
      entry("add", {x}, [](T in) { return add(in, 1); }),
      entry("sub", {x, x}, [](T a, T b) { return sub(a, b); }),
      entry("sub", {x}, [](T in) { return sub(in, 1); }),
      entry("sub", {x}, [](T in) { return sub(1, in); }),
      binary("mul", mul),
      entry("mul", {x}, [](T in) { return mul(in, 1); }),
      binary("div", div),
      entry("div", {x}, [](T in) { return div(in, 1); }),
      entry("div", {x}, [](T in) { return div(1, in); }),
      entry("div", {x, x}, [](T a, T b) { return div(a, b, Rounding::kFloor); }),
      entry("div", {x}, [](T in) { return div(in, 1, Rounding::kTrunc); }),
      binary("floor_divide", floor_divide),
      entry("floor_divide", {x}, [](T in) { return floor_divide(in, 1); }),
      binary("remainder", remainder),
      entry("remainder", {x}, [](T in) { return remainder(in, 1); }),
      binary("fmod", fmod),
      entry("fmod", {x}, [](T in) { return fmod(in, 1); }),
      entry("addcmul", {x, x, x}, [](T in, T a, T b) { return addcmul(in, a, b); }),
      entry("addcdiv", {x, x, x}, [](T in, T a, T b) { return addcdiv(in, a, b); }),
      entry("lerp", {x, x, x}, [](T in, T end, T weight) { return lerp(in, end, weight); }),
      entry("lerp", {x, x}, [](T in, T end) { return lerp(in, end, 0.5); }),
      binary("pow", pow),
      entry("pow", {x}, [](T in) { return pow(in, 2); }),
      binary("maximum", maximum),
      binary("minimum", minimum),
      entry("clamp", {x}, [](T in) { return clamp(in, 0, 1); }),
      unary("neg", neg),
      unary("abs", abs),
      unary("sign", sign),
      unary("square", square),
      unary("sqrt", sqrt),
      unary("rsqrt", rsqrt),
      unary("reciprocal", reciprocal),
      unary("exp", exp),
      unary("expm1", expm1),
      unary("log", log),
      unary("log1p", log1p),
      unary("log2", log2),
      unary("sin", sin),
      unary("cos", cos),
      unary("tan", tan),
      binary("atan2", atan2),
      unary("tanh", tanh),
      unary("erf", erf),
      unary("sigmoid", sigmoid),
      unary("floor", floor),
      unary("ceil", ceil),
      unary("round", round),
      unary("trunc", trunc),
  };
}

std::vector<Function> special_of_one() {
  const Tensor x = ones({2, 3}, kFloat64), vector = ones({3}, kFloat64);
  return {
      unary("exp2", exp2),
      unary("log10", log10),
      unary("asin", asin),
      unary("acos", acos),
      unary("atan", atan),
      unary("sinh", sinh),
      unary("cosh", cosh),
      unary("asinh", asinh),
      unary("acosh", acosh),
      unary("atanh", atanh),
      unary("erfc", erfc),
      unary("erfinv", erfinv),
      unary("lgamma", lgamma),
      unary("digamma", digamma),
      unary("trigamma", trigamma),
      unary("sinc", sinc),
      entry("logit", {x}, [](T in) { return logit(in); }),
      entry("logit", {x}, [](T in) { return logit(in, 0.1); }),
      unary("frac", frac),
      entry("round", {x}, [](T in) { return round(in, 1); }),
      unary("deg2rad", deg2rad),
      unary("rad2deg", rad2deg),
      entry("nan_to_num", {x}, [](T in) { return nan_to_num(in); }),
      entry("float_power", {x}, [](T in) { return float_power(in, 2.0); }),
      unary("entr", entr),
      unary("ndtr", ndtr),
      entry("mvlgamma", {x}, [](T in) { return mvlgamma(in, 1); }),
      entry("vander", {vector}, [](T in) { return vander(in); }),
      unary("sgn", sgn),
      unary("signbit", signbit),
      entry("clamp_min", {x}, [](T in) { return clamp_min(in, 1); }),
      entry("clamp_max", {x}, [](T in) { return clamp_max(in, 1); }),
      unary("isposinf", isposinf),
      unary("isneginf", isneginf),
      unary("bitwise_not", bitwise_not, ones({2, 3}, kInt64)),
  };
}

std::vector<Function> special_of_several() {
  const Tensor x = ones({2, 3}, kFloat64), whole = ones({2, 3}, kInt64);
  return {
      binary("copysign", copysign),
      binary("hypot", hypot),
      binary("xlogy", xlogy),
      binary("logaddexp", logaddexp),
      binary("logaddexp2", logaddexp2),
      binary("heaviside", heaviside),
      binary("fmax", fmax),
      binary("fmin", fmin),
      entry("clamp", {x}, [](T in) { return clamp(in, in, in); }),
      entry("rsub", {x, x}, [](T a, T b) { return rsub(a, b); }),
      binary("xlog1py", xlog1py),
      binary("ldexp", ldexp),
      entry("float_power", {x, x}, [](T a, T b) { return float_power(a, b); }),
      entry("clamp_min", {x, x}, [](T in, T low) { return clamp_min(in, low); }),
      entry("clamp_max", {x, x}, [](T in, T high) { return clamp_max(in, high); }),
      entry("isclose", {x, x}, [](T a, T b) { return isclose(a, b); }),
      binary("bitwise_left_shift", bitwise_left_shift, whole, whole),
      binary("bitwise_right_shift", bitwise_right_shift, whole, whole),
  };
}

}  // namespace

std::vector<Function> elementwise_functions() {
  std::vector<Function> all;
  for (const auto& part :
       {activations(), comparisons(), arithmetic(), special_of_one(), special_of_several()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace wick::testing
