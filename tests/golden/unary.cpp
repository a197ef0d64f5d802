#include "wick/core/ops/activation.h"
#include "wick/core/ops/elementwise.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {
namespace {

OpFunction plain(Tensor (*function)(const Tensor&)) {
  return [function](const Inputs& in, Args&) { return Tensors{function(in[0])}; };
}

Tensors gelu_of(const Inputs& in, Args& a) {
  const std::string approximate = a.text("approximate", "none");
  WICK_CHECK(approximate == "none" || approximate == "tanh",
             "argument 'approximate': unknown: got ", approximate);
  return {gelu(in[0], approximate == "tanh" ? GeluApproximation::kTanh : GeluApproximation::kNone)};
}

Tensors clamped(const Inputs& in, Args& a) {
  std::optional<Scalar> low, high;
  if (a.has("min")) low = a.scalar("min");
  if (a.has("max")) high = a.scalar("max");
  return {clamp(in[0], low, high)};
}

const Family unary_family(
    "unary",
    op_runner({
        {"relu", plain(relu)},
        {"sigmoid", plain(sigmoid)},
        {"tanh", plain(tanh)},
        {"exp", plain(exp)},
        {"expm1", plain(expm1)},
        {"abs", plain(abs)},
        {"neg", plain(neg)},
        {"sign", plain(sign)},
        {"square", plain(square)},
        {"sin", plain(sin)},
        {"cos", plain(cos)},
        {"erf", plain(erf)},
        {"silu", plain(silu)},
        {"hardswish", plain(hardswish)},
        {"hardsigmoid", plain(hardsigmoid)},
        {"log", plain(log)},
        {"log1p", plain(log1p)},
        {"sqrt", plain(sqrt)},
        {"rsqrt", plain(rsqrt)},
        {"reciprocal", plain(reciprocal)},
        {"floor", plain(floor)},
        {"ceil", plain(ceil)},
        {"round", plain(round)},
        {"trunc", plain(trunc)},
        {"softplus",
         [](const Inputs& in, Args& a) {
           return Tensors{softplus(in[0], a.number("beta", 1.0), a.number("threshold", 20.0))};
         }},
        {"gelu", gelu_of},
        {"leaky_relu",
         [](const Inputs& in, Args& a) {
           return Tensors{leaky_relu(in[0], a.number("negative_slope", 0.01))};
         }},
        {"elu",
         [](const Inputs& in, Args& a) { return Tensors{elu(in[0], a.number("alpha", 1.0))}; }},
        {"clamp", clamped},
        {"pow_scalar",
         [](const Inputs& in, Args& a) { return Tensors{pow(in[0], a.scalar("exponent"))}; }},
        {"add_scalar",
         [](const Inputs& in, Args& a) { return Tensors{add(in[0], a.scalar("other"))}; }},
        {"sub_scalar",
         [](const Inputs& in, Args& a) { return Tensors{sub(in[0], a.scalar("other"))}; }},
        {"mul_scalar",
         [](const Inputs& in, Args& a) { return Tensors{mul(in[0], a.scalar("other"))}; }},
        {"div_scalar",
         [](const Inputs& in, Args& a) { return Tensors{div(in[0], a.scalar("other"))}; }},
    }));

}  // namespace
}  // namespace wick::golden
