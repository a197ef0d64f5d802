#pragma once

#include <vector>

#include "wick/core/detail/autocast.h"
#include "wick/core/ops/detail/elementwise_op.h"

namespace wick {

/// The type that sums over elements of `dtype` have.
inline Dtype accumulator_dtype(Dtype dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

/// `compute(inputs)`, an op made of other ops, without rounding between them: with 16-bit inputs in
/// float32 and the result, of the dtype that the inputs together have, rounded once. Gradients go
/// through the float32 ops and are rounded once too. Autocast, whose casts come before, is off
/// where inputs were widened.
template <class Compute>
Tensor computed_wide(std::vector<Tensor> inputs, const Compute& compute) {
  bool widened = false;
  std::optional<Dtype> of_rank_0, dtype;
  for (Tensor& input : inputs) {
    if (!input.defined() || !is_floating(input.dtype())) continue;
    std::optional<Dtype>& widest = input.rank() == 0 ? of_rank_0 : dtype;
    widest = widest ? promote(*widest, input.dtype()) : input.dtype();
    widened = widened || is_reduced(input.dtype());
    input = wide(input);
  }
  if (!widened) return compute(inputs);
  const amp::Pause pause;
  return compute(inputs).to(dtype ? *dtype : *of_rank_0);
}

}  // namespace wick
