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

const Family binary_family("binary",
                           op_runner({
                               {"add", with_alpha(add)},
                               {"sub", with_alpha(sub)},
                               {"mul", plain(mul)},
                               {"div", plain(div)},
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
