#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {
namespace {

OpFunction plain(Tensor (*function)(const Tensor&, const Tensor&)) {
  return [function](const Inputs& in, Args&) { return Tensors{function(in[0], in[1])}; };
}

OpFunction with_alpha(Tensor (*function)(const Tensor&, const Tensor&, Scalar)) {
  return [function](const Inputs& in, Args& a) {
    return Tensors{function(in[0], in[1], a.scalar("alpha", Scalar(1)))};
  };
}

// In float64 until it is rounded, so that integers are exact.
Tensors quotient(const Inputs& in, Args& a) {
  const std::string mode = a.text("rounding_mode", "");
  if (mode.empty()) return {div(in[0], in[1])};
  WICK_CHECK(mode == "trunc" || mode == "floor", "argument 'rounding_mode': unknown: got ", mode);
  const Tensor exact = div(in[0].to(kFloat64), in[1].to(kFloat64));
  return {(mode == "trunc" ? trunc(exact) : floor(exact)).to(mul(in[0], in[1]).dtype())};
}

const Family binary_family("binary",
                           op_runner({
                               {"add", with_alpha(add)},
                               {"sub", with_alpha(sub)},
                               {"mul", plain(mul)},
                               {"div", quotient},
                               {"pow", plain(pow)},
                               {"maximum", plain(maximum)},
                               {"minimum", plain(minimum)},
                               {"eq", plain(eq)},
                               {"ne", plain(ne)},
                               {"lt", plain(lt)},
                               {"le", plain(le)},
                               {"gt", plain(gt)},
                               {"ge", plain(ge)},
                               {"logical_and", plain(logical_and)},
                               {"logical_or", plain(logical_or)},
                               {"logical_xor", plain(logical_xor)},
                               {"where", [](const Inputs& in,
                                            Args&) { return Tensors{where(in[0], in[1], in[2])}; }},
                           }));

}  // namespace
}  // namespace wick::golden
