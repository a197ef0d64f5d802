// A recurrent layer step by step: products and gates.
#include "wick/bench/kernels/rnn_rows.h"

namespace wick::bench::rnn_rows {
namespace {

template <RnnKind kKind>
Tensors by_steps(const Tensors& x) {
  const bool before = library_rnn_enabled();
  set_library_rnn(false);
  Tensors y = rnn_call<kKind>(x);
  set_library_rnn(before);
  return y;
}

[[maybe_unused]] const bool kLstm =
    add_rnn("rnn/lstm_512", rnn_inputs<RnnKind::kLstm>, by_steps<RnnKind::kLstm>);
[[maybe_unused]] const bool kGru =
    add_rnn("rnn/gru_512", rnn_inputs<RnnKind::kGru>, by_steps<RnnKind::kGru>);

}  // namespace
}  // namespace wick::bench::rnn_rows
