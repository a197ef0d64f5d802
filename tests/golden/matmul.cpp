#include "wick/core/ops/matmul.h"

#include "wick/core/ops/attention.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {
namespace {

Tensors attention(const Inputs& in, Args& a) {
  WICK_CHECK(a.number("dropout_p", 0.0) == 0, "argument 'dropout_p': a reference has no dropout");
  std::optional<double> scale;
  if (a.has("scale")) scale = a.number("scale");
  return {scaled_dot_product_attention(in[0], in[1], in[2], in.optional(3), 0,
                                       a.flag("is_causal", false), scale)};
}

const Family matmul_family(
    "matmul", op_runner({
                  {"matmul", [](const Inputs& in, Args&) { return Tensors{matmul(in[0], in[1])}; }},
                  {"matmul_transposed",
                   [](const Inputs& in, Args&) { return Tensors{matmul(in[0].t(), in[1].t())}; }},
                  {"linear", [](const Inputs& in,
                                Args&) { return Tensors{linear(in[0], in[1], in.optional(2))}; }},
                  {"scaled_dot_product_attention", attention},
              }));

}  // namespace
}  // namespace wick::golden
