// Softmax of rows and columns.
#include "wick/core/ops/softmax.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"

namespace wick::bench::softmax_rows {
namespace {

Tensors matrix(const Setting& s) { return {normal({s.some(8192), 2048})}; }

Tensor plain_softmax(const Tensor& x, int64_t axis) {
  const Tensor e = exp(x);
  return e / sum(e, {axis}, true);
}

[[maybe_unused]] const bool kRows =
    add_op({.name = "softmax/rows",
            .inputs = matrix,
            .call = [](const Tensors& x) { return Tensors{softmax(x[0], 1)}; },
            .plain = [](const Tensors& x) { return Tensors{plain_softmax(x[0], 1)}; }});

[[maybe_unused]] const bool kColumns =
    add_op({.name = "softmax/columns",
            .inputs = matrix,
            .call = [](const Tensors& x) { return Tensors{softmax(x[0], 0)}; },
            .plain = [](const Tensors& x) { return Tensors{plain_softmax(x[0], 0)}; },
            .backward = false});

[[maybe_unused]] const bool kLogRows =
    add_op({.name = "softmax/log_rows",
            .inputs = matrix,
            .call = [](const Tensors& x) { return Tensors{log_softmax(x[0], 1)}; },
            .plain = [](const Tensors& x) { return Tensors{log(plain_softmax(x[0], 1))}; }});

}  // namespace
}  // namespace wick::bench::softmax_rows
