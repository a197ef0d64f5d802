// A recurrent layer: the products of its steps, and its gates. On a GPU the vendor's library
// computes it, but for the rows "steps", which are what it has to beat.
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
Tensors layer_by_steps(const Tensors& x) {
  const bool before = library_rnn_enabled();
  set_library_rnn(false);
  Tensors y = layer<kKind>(x);
  set_library_rnn(before);
  return y;
}

template <RnnKind kKind>
Tensors both_inputs(const Setting& s) {
  Tensors all = layer_inputs<kKind>(s);
  const Tensors other = layer_inputs<kKind>(s);
  all.insert(all.end(), other.begin() + 1, other.end());
  return all;
}

template <RnnKind kKind>
Tensors both_ways(const Tensors& x) {
  const std::vector<int64_t> batch_sizes(kSteps, kSequences);
  return {bidirectional_rnn_layer(kKind, x[0], batch_sizes, {}, {}, {x[1], x[2], x[3], x[4], {}},
                                  {x[5], x[6], x[7], x[8], {}})
              .y};
}

bool add(const char* name, Tensors (*inputs)(const Setting&), Tensors (*call)(const Tensors&)) {
  return add_op(
      {.name = name, .inputs = inputs, .call = call, .dtypes = {kFloat32}, .check_shrink = 8});
}

[[maybe_unused]] const bool kLstmLayer =
    add("rnn/lstm_512", layer_inputs<RnnKind::kLstm>, layer<RnnKind::kLstm>);
[[maybe_unused]] const bool kGruLayer =
    add("rnn/gru_512", layer_inputs<RnnKind::kGru>, layer<RnnKind::kGru>);
[[maybe_unused]] const bool kLstmSteps =
    add("rnn/lstm_512_steps", layer_inputs<RnnKind::kLstm>, layer_by_steps<RnnKind::kLstm>);
[[maybe_unused]] const bool kGruSteps =
    add("rnn/gru_512_steps", layer_inputs<RnnKind::kGru>, layer_by_steps<RnnKind::kGru>);
[[maybe_unused]] const bool kLstmBoth =
    add("rnn/lstm_512_both_ways", both_inputs<RnnKind::kLstm>, both_ways<RnnKind::kLstm>);

}  // namespace
}  // namespace wick::bench::rnn_rows
