// Attention: of products and a softmax, or left to the GPU vendor's library.
#include "wick/core/ops/attention.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/ops/reduce.h"

namespace wick::bench::attention_rows {
namespace {

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
           const Tensor e = exp(scores);
           return Tensors{matmul(e / sum(e, {3}, true), x[2])};
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
                  return Tensors{scaled_dot_product_attention(x[0], x[1], x[2], {}, 0, true)};
                },
            .plain =
                [](const Tensors& x) {
                  const Tensor scores = matmul(x[0], x[1].transpose(-2, -1)) / 8;
                  const Tensor e = exp(scores).tril();
                  return Tensors{matmul(e / sum(e, {3}, true), x[2])};
                }});

}  // namespace
}  // namespace wick::bench::attention_rows
