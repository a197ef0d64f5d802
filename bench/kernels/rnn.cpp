// A recurrent layer: the products of its steps, and its gates.
#include "wick/core/ops/rnn.h"

#include "wick/bench/kernels/row.h"

namespace wick::bench::rnn_rows {
namespace {

constexpr int64_t kSteps = 64, kSequences = 32;

template <RnnKind kKind>
Tensors layer_inputs(const Setting& s) {
  const int64_t size = s.some(512), rows = gates_of(kKind) * size;
  const double bound = 0.04;  // as 1 / sqrt(512) has it
  return {normal({kSteps * kSequences, size}), uniform({rows, size}, -bound, bound),
          uniform({rows, size}, -bound, bound), uniform({rows}, -bound, bound),
          uniform({rows}, -bound, bound)};
}

template <RnnKind kKind>
Tensors layer(const Tensors& x) {
  const std::vector<int64_t> batch_sizes(kSteps, kSequences);
  return {rnn_layer(kKind, x[0], batch_sizes, false, {}, {}, {x[1], x[2], x[3], x[4], {}}).y};
}

template <RnnKind kKind>
bool add(const char* name) {
  return add_op({.name = name,
                 .inputs = layer_inputs<kKind>,
                 .call = layer<kKind>,
                 .dtypes = {kFloat32},
                 .check_shrink = 8});
}

[[maybe_unused]] const bool kLstmLayer = add<RnnKind::kLstm>("rnn/lstm_512");
[[maybe_unused]] const bool kGruLayer = add<RnnKind::kGru>("rnn/gru_512");

}  // namespace
}  // namespace wick::bench::rnn_rows
