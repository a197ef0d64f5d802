// Graphs against the ops that they are traced from. 8192 x 4096 float32 are 128 MiB.
#include "wick/core/graph/compile.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"

namespace wick::bench::elementwise_chain_rows {
namespace {

Tensors eight_ops(const Tensors& x) {
  const Tensor a = (x[0] * 1.5 + 0.25).square();
  const Tensor b = (a - x[0]).clamp(-3, 3).abs();
  return {(b * x[0]).neg()};
}

Tensors fused(const Tensors& x) {
  static graph::CompiledFunction compiled(eight_ops, {.recompile_limit = 1000});
  return compiled(x);
}

Tensors chain_inputs(const Setting& s) { return {normal({s.some(8192), 4096})}; }

[[maybe_unused]] const bool kChains[] = {
    add_op({.name = "elementwise_chain/eight",
            .inputs = chain_inputs,
            .call = fused,
            .plain = eight_ops,
            .backward = false}),
    // One after another: each reads and writes the memory.
    add_op({.name = "elementwise_chain/eight_composed",
            .inputs = chain_inputs,
            .call = eight_ops,
            .backward = false}),
};

}  // namespace
}  // namespace wick::bench::elementwise_chain_rows
