#pragma once

#include "wick/bench/kernels/row.h"
#include "wick/core/ops/rnn.h"

// What the rows of recurrent layers have in common.
namespace wick::bench {

inline constexpr int64_t kRnnSteps = 64, kRnnSequences = 32;

/// x, w_ih, w_hh, b_ih and b_hh of a layer of 512 units.
template <RnnKind kKind>
Tensors rnn_inputs(const Setting& s) {
  const int64_t size = s.some(512), rows = gates_of(kKind) * size;
  const double bound = 0.04;  // as 1 / sqrt(512) has it
  return {normal({kRnnSteps * kRnnSequences, size}), uniform({rows, size}, -bound, bound),
          uniform({rows, size}, -bound, bound), uniform({rows}, -bound, bound),
          uniform({rows}, -bound, bound)};
}

template <RnnKind kKind>
Tensors rnn_call(const Tensors& x) {
  const std::vector<int64_t> batch_sizes(kRnnSteps, kRnnSequences);
  return {rnn_layer(kKind, x[0], batch_sizes, false, {}, {}, {x[1], x[2], x[3], x[4], {}}).y};
}

inline bool add_rnn(const char* name, Tensors (*inputs)(const Setting&),
                    Tensors (*call)(const Tensors&)) {
  return add_op(
      {.name = name, .inputs = inputs, .call = call, .dtypes = {kFloat32}, .check_shrink = 8});
}

}  // namespace wick::bench
