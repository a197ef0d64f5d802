// Reductions over all elements, rows, columns and channels.
#include "wick/core/ops/reduce.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/sort.h"

namespace wick::bench::reduce_rows {
namespace {

Tensors matrix(const Setting& s) { return {normal({s.some(8192), 2048})}; }
Tensors near_one(const Setting& s) { return {uniform({s.some(8192), 2048}, 0.99, 1.01)}; }
// A sum near 0 has no relative error.
Tensors positive(const Setting& s) { return {uniform({s.some(8192), 2048}, 0, 1)}; }

Tensor ones_for(const Tensor& x, int axis) { return ones({x.size(axis)}, x.dtype(), x.device()); }

bool add_reduction(const char* name, Tensors (*inputs)(const Setting&),
                   Tensors (*call)(const Tensors&), Tensors (*plain)(const Tensors&) = nullptr) {
  OpRow row{.name = concat("reduce/", name), .inputs = inputs, .call = call, .backward = false};
  if (plain != nullptr) row.plain = plain;
  return add_op(row);
}

[[maybe_unused]] const bool kReductions[] = {
    add_reduction(
        "sum_all", positive, [](const Tensors& x) { return Tensors{sum(x[0])}; },
        [](const Tensors& x) {
          const Tensor rows = matmul(x[0], ones_for(x[0], 1));
          return Tensors{matmul(rows, ones_for(x[0], 0))};
        }),
    add_reduction(
        "sum_rows", matrix, [](const Tensors& x) { return Tensors{sum(x[0], {1})}; },
        [](const Tensors& x) { return Tensors{matmul(x[0], ones_for(x[0], 1))}; }),
    add_reduction(
        "sum_columns", matrix, [](const Tensors& x) { return Tensors{sum(x[0], {0})}; },
        [](const Tensors& x) { return Tensors{matmul(ones_for(x[0], 0), x[0])}; }),
    add_reduction(
        "sum_channels_last",
        [](const Setting& s) {
          return Tensors{normal_images({s.some(256), 64, 32, 32})};
        },
        [](const Tensors& x) {
          return Tensors{sum(x[0], {0, 2, 3})};
        }),
    add_reduction(
        "sum_channels_first",
        [](const Setting& s) {
          return Tensors{normal({s.some(256), 64, 32, 32})};
        },
        [](const Tensors& x) {
          return Tensors{sum(x[0], {0, 2, 3})};
        }),
    add_reduction(
        "max_rows", matrix, [](const Tensors& x) { return Tensors{amax(x[0], {1})}; },
        [](const Tensors& x) { return Tensors{sort(x[0], 1).values.select(1, -1)}; }),
    add_reduction("prod_rows", near_one, [](const Tensors& x) { return Tensors{prod(x[0], {1})}; }),
    add_reduction(
        "argmax_rows", matrix, [](const Tensors& x) { return Tensors{argmax(x[0], 1)}; },
        [](const Tensors& x) { return Tensors{topk(x[0], 1, 1).indices.select(1, 0)}; }),
    add_reduction(
        "var_rows", matrix, [](const Tensors& x) { return Tensors{var(x[0], {1})}; },
        [](const Tensors& x) {
          const Tensor centred = x[0] - mean(x[0], {1}, true);
          const auto n = static_cast<double>(x[0].size(1));
          return Tensors{sum(centred * centred, {1}) / (n - 1)};
        }),
    add_reduction(
        "norm_all", matrix, [](const Tensors& x) { return Tensors{norm(x[0])}; },
        [](const Tensors& x) { return Tensors{sqrt(sum(x[0] * x[0]))}; }),
    add_reduction(
        "logsumexp_rows", matrix, [](const Tensors& x) { return Tensors{logsumexp(x[0], {1})}; },
        [](const Tensors& x) { return Tensors{log(sum(exp(x[0]), {1}))}; }),
};

}  // namespace
}  // namespace wick::bench::reduce_rows
