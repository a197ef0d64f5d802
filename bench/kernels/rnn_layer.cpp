// A recurrent layer as a model calls it: by the vendor's library where there is one, which has to
// beat the rows of rnn.cpp, and step by step elsewhere.
#include "wick/bench/kernels/rnn_rows.h"

namespace wick::bench::rnn_layer_rows {
namespace {

template <RnnKind kKind>
Tensors both_inputs(const Setting& s) {
  Tensors all = rnn_inputs<kKind>(s);
  const Tensors other = rnn_inputs<kKind>(s);
  all.insert(all.end(), other.begin() + 1, other.end());
  return all;
}

template <RnnKind kKind>
Tensors both_ways(const Tensors& x) {
  const std::vector<int64_t> batch_sizes(kRnnSteps, kRnnSequences);
  return {bidirectional_rnn_layer(kKind, x[0], batch_sizes, {}, {}, {x[1], x[2], x[3], x[4], {}},
                                  {x[5], x[6], x[7], x[8], {}})
              .y};
}

[[maybe_unused]] const bool kLstm =
    add_rnn("rnn_layer/lstm_512", rnn_inputs<RnnKind::kLstm>, rnn_call<RnnKind::kLstm>);
[[maybe_unused]] const bool kGru =
    add_rnn("rnn_layer/gru_512", rnn_inputs<RnnKind::kGru>, rnn_call<RnnKind::kGru>);
[[maybe_unused]] const bool kLstmBoth =
    add_rnn("rnn_layer/lstm_512_both_ways", both_inputs<RnnKind::kLstm>, both_ways<RnnKind::kLstm>);

}  // namespace
}  // namespace wick::bench::rnn_layer_rows
