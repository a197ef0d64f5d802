// Softmax of rows and columns, and attention, which is made of it and of products.
#include "wick/core/ops/softmax.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/attention.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
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

// Eight images of a ViT-B: 12 heads of 64 for 197 patches.
[[maybe_unused]] const bool kAttention = add_op(
    {.name = "attention/vit_b",
     .inputs =
         [](const Setting& s) {
           const Shape shape{s.some(8), 12, 197, 64};
           return Tensors{normal(shape), normal(shape), normal(shape)};
         },
     .call =
         [](const Tensors& x) { return Tensors{scaled_dot_product_attention(x[0], x[1], x[2])}; },
     .plain =
         [](const Tensors& x) {
           const Tensor scores = matmul(x[0], x[1].transpose(-2, -1)) / 8;
           return Tensors{matmul(plain_softmax(scores, 3), x[2])};
         }});

// GPT-2's 12 heads of 64, where a token sees those before it.
[[maybe_unused]] const bool kCausal =
    add_op({.name = "attention/gpt2_causal",
            .inputs =
                [](const Setting& s) {
                  const Shape shape{1, s.some(12), 512, 64};
                  return Tensors{normal(shape), normal(shape), normal(shape)};
                },
            .call =
                [](const Tensors& x) {
                  return Tensors{scaled_dot_product_attention(x[0], x[1], x[2], {}, true)};
                },
            .plain =
                [](const Tensors& x) {
                  const Tensor scores = matmul(x[0], x[1].transpose(-2, -1)) / 8;
                  const Tensor e = exp(scores).tril();
                  return Tensors{matmul(e / sum(e, {3}, true), x[2])};
                }});

}  // namespace
}  // namespace wick::bench::softmax_rows
