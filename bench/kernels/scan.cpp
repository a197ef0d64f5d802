// Running sums and products.
#include "wick/bench/kernels/row.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/sort.h"

namespace wick::bench::scan_rows {
namespace {

Tensors matrix(const Setting& s) { return {uniform({s.some(32768), 512}, 0.9, 1.1)}; }

// Sums of the first 1, 2, ... elements of each row, as a product with a triangle of ones.
Tensor sums(const Tensor& x) {
  return matmul(x, triu(ones({x.size(1), x.size(1)}, x.dtype(), x.device())));
}

[[maybe_unused]] const bool kSum =
    add_op({.name = "scan/cumsum_rows",
            .inputs = matrix,
            .call = [](const Tensors& x) { return Tensors{cumsum(x[0], 1)}; },
            .plain = [](const Tensors& x) { return Tensors{sums(x[0])}; },
            .check_shrink = 8});

[[maybe_unused]] const bool kColumns =
    add_op({.name = "scan/cumsum_columns",
            .inputs = matrix,
            .call = [](const Tensors& x) { return Tensors{cumsum(x[0], 0)}; },
            .plain = [](const Tensors& x) { return Tensors{cumsum(x[0].t(), 1).t()}; },
            .backward = false});

[[maybe_unused]] const bool kProduct =
    add_op({.name = "scan/cumprod_rows",
            .inputs =
                [](const Setting& s) {
                  return Tensors{uniform({s.some(8192), 512}, 0.9, 1.1)};
                },
            .call = [](const Tensors& x) { return Tensors{cumprod(x[0], 1)}; },
            .plain = [](const Tensors& x) { return Tensors{sums(x[0].log()).exp()}; },
            .dtypes = {kFloat32},
            .check_shrink = 8});

}  // namespace
}  // namespace wick::bench::scan_rows
