#include "wick/core/core.h"
#include "wick/onnx/detail/call.h"

namespace wick::onnx::detail {

namespace {

using Results = std::vector<Tensor>;

// Where ONNX has the gates of Wick's order: i o f c for i f c o, and z r n for r z n.
std::vector<int64_t> gate_places(RnnKind kind) {
  if (kind == RnnKind::kLstm) return {0, 2, 3, 1};
  if (kind == RnnKind::kGru) return {1, 0, 2};
  return {0};
}

Tensor in_wick_order(const Tensor& rows, RnnKind kind, int64_t hidden) {
  std::vector<Tensor> gates;
  for (const int64_t place : gate_places(kind)) {
    gates.push_back(rows.narrow(0, place * hidden, hidden));
  }
  return gates.size() == 1 ? gates[0] : cat(gates, 0);
}

// What the inputs of a layer say, in ONNX's order: X, W, R, B, sequence_lens, initial_h, initial_c.
struct Layer {
  RnnKind kind;
  int64_t steps, batch, width, hidden, directions, gates;

  Layer(Call& call, RnnKind what) : kind(what), gates(gates_of(what)) {
    call.expect("layout", 0);
    call.expect("input_forget", 0);
    WICK_CHECK(!call.has(4), "sequence_lens are given, expected sequences of one length");
    WICK_CHECK(!call.has(7), "peepholes are given, expected none");
    WICK_CHECK(call.find<float>("clip") == nullptr, "attribute clip is given, expected none");
    const Shape x = call[0].shape(), w = call[1].shape(), r = call[2].shape();
    WICK_CHECK(x.rank() == 3 && w.rank() == 3 && r.rank() == 3, "X, W or R is not of rank 3: got ",
               x, ", ", w, " and ", r);
    steps = x[0], batch = x[1], width = x[2], directions = w[0];
    hidden = call.integer("hidden_size", r[2]);
    const std::string direction = call.text("direction", "forward");
    WICK_CHECK(direction == "forward" || direction == "reverse" || direction == "bidirectional",
               "attribute direction: got ", direction);
    const int64_t wanted = direction == "bidirectional" ? 2 : 1;
    const Shape w_wanted{wanted, gates * hidden, width}, r_wanted{wanted, gates * hidden, hidden};
    WICK_CHECK(w == w_wanted && r == r_wanted, "W or R has a wrong shape: got ", w, " and ", r,
               ", expected ", w_wanted, " and ", r_wanted);
  }
};

RnnWeights weights_of(Call& call, const Layer& layer, int64_t direction) {
  RnnWeights weights;
  weights.w_ih = in_wick_order(call[1].select(0, direction), layer.kind, layer.hidden);
  weights.w_hh = in_wick_order(call[2].select(0, direction), layer.kind, layer.hidden);
  if (call.has(3)) {
    const int64_t rows = layer.gates * layer.hidden;
    const Shape wanted{layer.directions, 2 * rows};
    WICK_CHECK(call[3].shape() == wanted, "B has a wrong shape: got ", call[3].shape(),
               ", expected ", wanted);
    const Tensor both = call[3].select(0, direction);
    weights.b_ih = in_wick_order(both.narrow(0, 0, rows), layer.kind, layer.hidden);
    weights.b_hh = in_wick_order(both.narrow(0, rows, rows), layer.kind, layer.hidden);
  }
  return weights;
}

// A state that the model makes of constants has their dtype, whatever the module was moved to.
Tensor initial(Call& call, size_t i, const Layer& layer) {
  if (!call.has(i)) return {};
  const Shape wanted{layer.directions, layer.batch, layer.hidden};
  WICK_CHECK(call[i].shape() == wanted, "an initial state has a wrong shape: got ", call[i].shape(),
             ", expected ", wanted);
  const Tensor state = call[i].to(call[0].dtype());
  return layer.directions == 1 ? state.select(0, 0) : state;
}

Results recurrent(Call& call, RnnKind kind) {
  const Layer layer(call, kind);
  const bool is_lstm = kind == RnnKind::kLstm;
  const Tensor rows = call[0].reshape({layer.steps * layer.batch, layer.width});
  const std::vector<int64_t> batch_sizes(static_cast<size_t>(layer.steps), layer.batch);
  const Tensor h_0 = initial(call, 5, layer), c_0 = is_lstm ? initial(call, 6, layer) : Tensor();
  const RnnWeights weights = weights_of(call, layer, 0);
  Results results;
  if (layer.directions == 2) {
    const RnnResult both = bidirectional_rnn_layer(kind, rows, batch_sizes, h_0, c_0, weights,
                                                   weights_of(call, layer, 1));
    const Tensor y = both.y.reshape({layer.steps, layer.batch, 2, layer.hidden});
    results = {y.transpose(1, 2), both.h_n};
    if (is_lstm) results.push_back(both.c_n);
  } else {
    const bool is_reverse = call.text("direction", "forward") == "reverse";
    const RnnResult one = rnn_layer(kind, rows, batch_sizes, is_reverse, h_0, c_0, weights);
    results = {one.y.reshape({layer.steps, 1, layer.batch, layer.hidden}), one.h_n.unsqueeze(0)};
    if (is_lstm) results.push_back(one.c_n.unsqueeze(0));
  }
  return results;
}

void expect_activations(Call& call, const std::vector<std::string>& wanted) {
  const auto* list = call.find<std::vector<std::string>>("activations");
  if (list == nullptr) return;
  for (size_t i = 0; i < list->size(); ++i) {
    WICK_CHECK((*list)[i] == wanted[i % wanted.size()], "attribute activations: got ", (*list)[i],
               ", expected ", wanted[i % wanted.size()]);
  }
}

Results lstm_op(Call& call) {
  expect_activations(call, {"Sigmoid", "Tanh", "Tanh"});
  return recurrent(call, RnnKind::kLstm);
}

Results gru_op(Call& call) {
  expect_activations(call, {"Sigmoid", "Tanh"});
  WICK_CHECK(call.integer("linear_before_reset", 0) != 0,
             "attribute linear_before_reset: got 0, expected 1, as PyTorch computes");
  return recurrent(call, RnnKind::kGru);
}

Results rnn_op(Call& call) {
  const auto* list = call.find<std::vector<std::string>>("activations");
  const bool is_relu = list != nullptr && !list->empty() && list->front() == "Relu";
  expect_activations(call, {is_relu ? "Relu" : "Tanh"});
  return recurrent(call, is_relu ? RnnKind::kRelu : RnnKind::kTanh);
}

constexpr OpEntry kRecurrentOps[] = {
    {"LSTM", 3, 8, lstm_op},
    {"GRU", 3, 6, gru_op},
    {"RNN", 3, 6, rnn_op},
};

}  // namespace

std::span<const OpEntry> recurrent_ops() { return kRecurrentOps; }

}  // namespace wick::onnx::detail
