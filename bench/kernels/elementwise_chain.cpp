// Graphs against the ops that they are traced from. 8192 x 4096 float32 are 128 MiB.
#include "wick/core/graph/compile.h"

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"

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

Tensors mean_of_eight(const Tensors& x) { return {eight_ops(x)[0].mean()}; }
Tensors column_sums(const Tensors& x) { return {eight_ops(x)[0].sum(Shape{0})}; }

template <Tensors (*kOps)(const Tensors&)>
Tensors ended(const Tensors& x) {
  static graph::CompiledFunction compiled(kOps, {.recompile_limit = 1000});
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
    // With a reduction at the end, which reads what it reduces in the cache.
    add_op({.name = "elementwise_chain/eight_mean",
            .inputs = chain_inputs,
            .call = ended<mean_of_eight>,
            .plain = mean_of_eight,
            .backward = false}),
    add_op({.name = "elementwise_chain/eight_column_sums",
            .inputs = chain_inputs,
            .call = ended<column_sums>,
            .plain = column_sums,
            .backward = false}),
};

}  // namespace
}  // namespace wick::bench::elementwise_chain_rows
