#include <cmath>
#include <limits>

#include "wick/core/core.h"
#include "wick/onnx/detail/writer.h"

// How ops of each element are written.
namespace wick::onnx::detail {

namespace {

void one_input(Emit& emit) { emit.finish(emit.onnx(), {emit.as_result(0)}); }
void two_inputs(Emit& emit) { emit.finish(emit.onnx(), {emit.as_result(0), emit.as_result(1)}); }

// The op of the input and a number, or of the number and the input.
void with_number(Emit& emit, const char* attribute) {
  emit.finish(emit.onnx(), {emit.as_result(0), emit.number(emit.real(attribute))});
}
void with_other(Emit& emit) { with_number(emit, "other"); }
void with_exponent(Emit& emit) { with_number(emit, "exponent"); }
void other_first(Emit& emit) {
  emit.finish(emit.onnx(), {emit.number(emit.real("other")), emit.as_result(0)});
}

void add_writer(Emit& emit) {
  const double alpha = emit.real("alpha");
  std::string y = emit.as_result(1);
  if (alpha != 1) y = emit.add("Mul", {y, emit.number(alpha)});
  emit.finish("Add", {emit.as_result(0), y});
}

// Comparisons are of the dtype that both inputs can be converted to.
void compare(Emit& emit) {
  const Dtype dtype = promote(emit.value(0).dtype, emit.value(1).dtype);
  emit.finish(emit.onnx(), {emit.as(0, dtype), emit.as(1, dtype)});
}
void compare_number(Emit& emit) {
  const Dtype own = emit.value(0).dtype;
  const double y = emit.real("y");
  const Dtype dtype = is_floating(own) || y == std::floor(y) ? own : kFloat32;
  emit.finish(emit.onnx(), {emit.as(0, dtype), emit.constant(scalar_tensor(y, dtype))});
}
void not_equal(Emit& emit) {
  const Dtype dtype = promote(emit.value(0).dtype, emit.value(1).dtype);
  emit.finish("Not", {emit.add("Equal", {emit.as(0, dtype), emit.as(1, dtype)})});
}
void not_equal_number(Emit& emit) {
  const std::string y = emit.constant(scalar_tensor(emit.real("y"), emit.value(0).dtype));
  emit.finish("Not", {emit.add("Equal", {emit.in(0), y})});
}
void logical(Emit& emit) { emit.finish(emit.onnx(), {emit.as(0, kBool), emit.as(1, kBool)}); }
void logical_not_writer(Emit& emit) { emit.finish("Not", {emit.as(0, kBool)}); }

void where_writer(Emit& emit) {
  emit.finish("Where", {emit.in(0), emit.as_result(1), emit.as_result(2)});
}
void masked_fill_writer(Emit& emit) {
  emit.finish("Where", {emit.in(1), emit.number(emit.real("value")), emit.as_result(0)});
}

void clamp_writer(Emit& emit) {
  const double low = emit.real("low"), high = emit.real("high");
  emit.finish("Clip", {emit.as_result(0), std::isinf(low) ? "" : emit.number(low),
                       std::isinf(high) ? "" : emit.number(high)});
}
void relu6_writer(Emit& emit) {
  emit.finish("Clip", {emit.as_result(0), emit.number(0), emit.number(6)});
}

void square_writer(Emit& emit) { emit.finish("Mul", {emit.as_result(0), emit.as_result(0)}); }
void rsqrt_writer(Emit& emit) {
  emit.finish("Reciprocal", {emit.add("Sqrt", {emit.as_result(0)})});
}
void log1p_writer(Emit& emit) {
  emit.finish("Log", {emit.add("Add", {emit.as_result(0), emit.number(1)})});
}
void expm1_writer(Emit& emit) {
  emit.finish("Sub", {emit.add("Exp", {emit.as_result(0)}), emit.number(1)});
}

void silu_writer(Emit& emit) {
  const std::string x = emit.as_result(0);
  emit.finish("Mul", {x, emit.add("Sigmoid", {x})});
}
void mish_writer(Emit& emit) {
  const std::string x = emit.as_result(0);
  emit.finish("Mul", {x, emit.add("Tanh", {emit.add("Softplus", {x})})});
}
// x (1 + erf(x / sqrt(2))) / 2
void gelu_writer(Emit& emit) {
  const std::string x = emit.as_result(0);
  const std::string erf = emit.add("Erf", {emit.add("Mul", {x, emit.number(std::sqrt(0.5))})});
  const std::string half = emit.add("Mul", {x, emit.number(0.5)});
  emit.finish("Mul", {half, emit.add("Add", {erf, emit.number(1)})});
}
void gelu_tanh_writer(Emit& emit) { finish_with_gelu_tanh(emit, emit.as_result(0)); }
void hardsigmoid_writer(Emit& emit) {
  emit.finish("HardSigmoid", {emit.as_result(0)}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
}
void leaky_relu_writer(Emit& emit) {
  emit.finish("LeakyRelu", {emit.as_result(0)}, {{"alpha", emit.real("negative_slope")}});
}
void elu_writer(Emit& emit) {
  emit.finish("Elu", {emit.as_result(0)}, {{"alpha", emit.real("alpha")}});
}
void softplus_writer(Emit& emit) {
  WICK_CHECK(emit.real("beta") == 1, "beta: got ", emit.real("beta"), ", expected 1");
  emit.finish("Softplus", {emit.as_result(0)});
}
void cast_writer(Emit& emit) { emit.finish("Identity", {emit.as_result(0)}); }

constexpr WriterEntry kElementwiseWriters[] = {
    {"add", add_writer},
    {"mul", two_inputs, "Mul"},
    {"div", two_inputs, "Div"},
    {"pow", two_inputs, "Pow"},
    {"maximum", two_inputs, "Max"},
    {"minimum", two_inputs, "Min"},
    {"add_scalar", with_other, "Add"},
    {"mul_scalar", with_other, "Mul"},
    {"div_scalar", with_other, "Div"},
    {"sub_from_scalar", other_first, "Sub"},
    {"div_scalar_by", other_first, "Div"},
    {"pow_scalar", with_exponent, "Pow"},
    {"pow_half", one_input, "Sqrt"},
    {"eq", compare, "Equal"},
    {"ne", not_equal},
    {"lt", compare, "Less"},
    {"le", compare, "LessOrEqual"},
    {"gt", compare, "Greater"},
    {"ge", compare, "GreaterOrEqual"},
    {"eq_scalar", compare_number, "Equal"},
    {"ne_scalar", not_equal_number},
    {"lt_scalar", compare_number, "Less"},
    {"le_scalar", compare_number, "LessOrEqual"},
    {"gt_scalar", compare_number, "Greater"},
    {"ge_scalar", compare_number, "GreaterOrEqual"},
    {"logical_and", logical, "And"},
    {"logical_or", logical, "Or"},
    {"logical_xor", logical, "Xor"},
    {"logical_not", logical_not_writer},
    {"where", where_writer},
    {"masked_fill", masked_fill_writer},
    {"clamp", clamp_writer},
    {"neg", one_input, "Neg"},
    {"abs", one_input, "Abs"},
    {"sign", one_input, "Sign"},
    {"square", square_writer},
    {"sqrt", one_input, "Sqrt"},
    {"rsqrt", rsqrt_writer},
    {"reciprocal", one_input, "Reciprocal"},
    {"exp", one_input, "Exp"},
    {"expm1", expm1_writer},
    {"log", one_input, "Log"},
    {"log1p", log1p_writer},
    {"sin", one_input, "Sin"},
    {"cos", one_input, "Cos"},
    {"erf", one_input, "Erf"},
    {"tanh", one_input, "Tanh"},
    {"sigmoid", one_input, "Sigmoid"},
    {"floor", one_input, "Floor"},
    {"ceil", one_input, "Ceil"},
    {"round", one_input, "Round"},
    {"relu", one_input, "Relu"},
    {"relu6", relu6_writer},
    {"silu", silu_writer},
    {"mish", mish_writer},
    {"gelu", gelu_writer},
    {"gelu_tanh", gelu_tanh_writer},
    {"softsign", one_input, "Softsign"},
    {"hardswish", one_input, "HardSwish"},
    {"hardsigmoid", hardsigmoid_writer},
    {"leaky_relu", leaky_relu_writer},
    {"elu", elu_writer},
    {"softplus", softplus_writer},
    {"cast", cast_writer},
    {"clone", cast_writer},
    {"check_index", cast_writer},
};

}  // namespace

// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
void finish_with_gelu_tanh(Emit& emit, const std::string& x) {
  const std::string cube = emit.add("Mul", {emit.add("Mul", {x, x}), x});
  const std::string sum = emit.add("Add", {x, emit.add("Mul", {cube, emit.number(0.044715)})});
  const std::string tanh =
      emit.add("Tanh", {emit.add("Mul", {sum, emit.number(std::sqrt(2 / std::acos(-1.0)))})});
  const std::string half = emit.add("Mul", {x, emit.number(0.5)});
  emit.finish("Mul", {half, emit.add("Add", {tanh, emit.number(1)})});
}

std::span<const WriterEntry> elementwise_writers() { return kElementwiseWriters; }

}  // namespace wick::onnx::detail
