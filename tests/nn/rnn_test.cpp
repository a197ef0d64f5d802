#include "wick/nn/rnn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "wick/core/autograd.h"
#include "wick/core/base/threads.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::nn {
namespace {

using testing::error_of;

constexpr int64_t kIn = 5, kHidden = 4;

double largest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  if (a.numel() == 0) return 0;
  return (a.detach().to(kFloat64) - b.detach().to(kFloat64)).abs().max().item<double>();
}
bool same(const Tensor& a, const Tensor& b) { return eq(a, b).all().item<bool>(); }

// --- A network by plain loops, in double --------------------------------------------------------

using Row = std::vector<double>;
using Rows = std::vector<Row>;  // one sequence

Row row_of(const Tensor& x) { return x.detach().to(kFloat64).to_vector<double>(); }
Rows rows_of(const Tensor& x) {
  Rows rows;
  for (int64_t t = 0; t < x.size(0); ++t) rows.push_back(row_of(x[t]));
  return rows;
}

struct LoopWeights {
  Rows w_ih, w_hh, w_hr;
  Row b_ih, b_hh;
};
LoopWeights weights_of(const TensorMap& state, const std::string& suffix) {
  const auto find = [&](const std::string& name) {
    const auto found = state.find(name + suffix);
    return found == state.end() ? Tensor() : found->second;
  };
  const auto rows = [&](const char* name) {
    const Tensor w = find(name);
    return w.defined() ? rows_of(w) : Rows();
  };
  const auto row = [&](const char* name) {
    const Tensor b = find(name);
    return b.defined() ? row_of(b) : Row();
  };
  return {rows("weight_ih"), rows("weight_hh"), rows("weight_hr"), row("bias_ih"), row("bias_hh")};
}

Row product(const Rows& w, const Row& x, const Row& bias) {
  Row y;
  for (size_t i = 0; i < w.size(); ++i) {
    double sum = bias.empty() ? 0 : bias[i];
    for (size_t j = 0; j < x.size(); ++j) sum += w[i][j] * x[j];
    y.push_back(sum);
  }
  return y;
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// The steps of one direction of one sequence; h and c in place.
Rows loop(RnnKind kind, const LoopWeights& w, Rows x, bool reverse, Row& h, Row& c) {
  Rows ys(x.size());
  for (size_t s = 0; s < x.size(); ++s) {
    const size_t t = reverse ? x.size() - 1 - s : s;
    const Row gx = product(w.w_ih, x[t], w.b_ih), gh = product(w.w_hh, h, w.b_hh);
    const size_t units = gx.size() / static_cast<size_t>(gates_of(kind));
    Row y(units);
    for (size_t j = 0; j < units; ++j) {
      const auto gate = [&](size_t k) { return gx[k * units + j] + gh[k * units + j]; };
      if (kind == RnnKind::kTanh) y[j] = std::tanh(gate(0));
      if (kind == RnnKind::kRelu) y[j] = std::max(0.0, gate(0));
      if (kind == RnnKind::kLstm) {
        c[j] = sigmoid_of(gate(1)) * c[j] + sigmoid_of(gate(0)) * std::tanh(gate(2));
        y[j] = sigmoid_of(gate(3)) * std::tanh(c[j]);
      }
      if (kind == RnnKind::kGru) {
        const double z = sigmoid_of(gate(1)), r = sigmoid_of(gate(0));
        y[j] = (1 - z) * std::tanh(gx[2 * units + j] + r * gh[2 * units + j]) + z * h[j];
      }
    }
    h = w.w_hr.empty() ? y : product(w.w_hr, y, {});
    ys[t] = h;
  }
  return ys;
}

struct LoopResult {
  Rows y, h, c;
};
// A whole network on one sequence; h and c: a row for each layer and direction.
LoopResult loop_network(RnnKind kind, const TensorMap& state, int64_t layers, bool bidirectional,
                        Rows x, Rows h, Rows c) {
  for (int64_t layer = 0; layer < layers; ++layer) {
    Rows joined(x.size());
    for (int direction = 0; direction < (bidirectional ? 2 : 1); ++direction) {
      const std::string suffix = concat("_l", layer, direction == 1 ? "_reverse" : "");
      const auto place = static_cast<size_t>(layer * (bidirectional ? 2 : 1) + direction);
      const Rows ys = loop(kind, weights_of(state, suffix), x, direction == 1, h[place], c[place]);
      for (size_t t = 0; t < ys.size(); ++t) {
        joined[t].insert(joined[t].end(), ys[t].begin(), ys[t].end());
      }
    }
    x = joined;
  }
  return {x, h, c};
}

void expect_rows(const Tensor& got, const Rows& want, const std::string& what) {
  ASSERT_EQ(got.size(0), static_cast<int64_t>(want.size())) << what;
  for (size_t t = 0; t < want.size(); ++t) {
    const Row row = row_of(got[static_cast<int64_t>(t)]);
    ASSERT_EQ(row.size(), want[t].size()) << what;
    for (size_t j = 0; j < row.size(); ++j) {
      EXPECT_NEAR(row[j], want[t][j], 1e-5) << what << " at " << t << ", " << j;
    }
  }
}

// What the three kinds of network have in common, by one signature.
struct Network {
  RnnKind kind;
  std::function<PackedLSTMOutput(const PackedSequence&, const LSTMState&)> packed;
  std::function<LSTMOutput(const Tensor&, const LSTMState&)> plain;
  TensorMap state;
};
template <class M>
Network network(RnnKind kind, const std::shared_ptr<M>& m, Device device) {
  m->to(device);
  Network n;
  n.kind = kind;
  n.state = m->state_dict();
  if constexpr (std::is_same_v<M, LSTM>) {
    n.plain = [m](const Tensor& x, const LSTMState& s) { return m->forward_with_state(x, s); };
    n.packed = [m](const PackedSequence& x, const LSTMState& s) {
      return m->forward_with_state(x, s);
    };
  } else {
    n.plain = [m](const Tensor& x, const LSTMState& s) -> LSTMOutput {
      const RNNOutput all = m->forward_with_state(x, s.h);
      return {all.output, {all.h_n, {}}};
    };
    n.packed = [m](const PackedSequence& x, const LSTMState& s) -> PackedLSTMOutput {
      const PackedRNNOutput all = m->forward_with_state(x, s.h);
      return {all.output, {all.h_n, {}}};
    };
  }
  return n;
}
struct Setting {
  int64_t layers = 1;
  bool bidirectional = false, batch_first = false, bias = true;
  int64_t proj_size = 0;

  int64_t states() const { return layers * (bidirectional ? 2 : 1); }
};
Network make_network(RnnKind kind, const Setting& s, Device device) {
  if (kind == RnnKind::kLstm) {
    return network(kind,
                   std::make_shared<LSTM>(kIn, kHidden,
                                          LSTMOptions{.num_layers = s.layers,
                                                      .bias = s.bias,
                                                      .batch_first = s.batch_first,
                                                      .bidirectional = s.bidirectional,
                                                      .proj_size = s.proj_size}),
                   device);
  }
  if (kind == RnnKind::kGru) {
    return network(kind,
                   std::make_shared<GRU>(kIn, kHidden,
                                         GRUOptions{.num_layers = s.layers,
                                                    .bias = s.bias,
                                                    .batch_first = s.batch_first,
                                                    .bidirectional = s.bidirectional}),
                   device);
  }
  const auto nonlinearity = kind == RnnKind::kTanh ? Nonlinearity::kTanh : Nonlinearity::kRelu;
  return network(kind,
                 std::make_shared<RNN>(kIn, kHidden,
                                       RNNOptions{.num_layers = s.layers,
                                                  .nonlinearity = nonlinearity,
                                                  .bias = s.bias,
                                                  .batch_first = s.batch_first,
                                                  .bidirectional = s.bidirectional}),
                 device);
}

// Sequence b of states [D L, N, ...].
Rows state_of(const Tensor& state, int64_t b, const Setting& s) {
  if (!state.defined()) return Rows(static_cast<size_t>(s.states()), Row(kHidden));
  return rows_of(state.select(1, b).contiguous());
}

// Compares all three ways of giving sequences with the loops.
void check_network(RnnKind kind, const Setting& s, Device device) {
  SCOPED_TRACE(concat(device, " ", to_string(kind), " layers ", s.layers, " bidirectional ",
                      s.bidirectional, " batch_first ", s.batch_first, " bias ", s.bias, " proj ",
                      s.proj_size));
  const std::vector<int64_t> lengths{2, 4, 1, 4};  // unsorted, with equal ones
  const int64_t batch = 4, width = s.proj_size > 0 ? s.proj_size : kHidden;
  const Network net = make_network(kind, s, device);
  const auto normal = [&](const Shape& shape) { return randn(shape).to(device); };
  const Tensor x = normal({4, batch, kIn});  // [T, N, I]
  const LSTMState start{normal({s.states(), batch, width}),
                        kind == RnnKind::kLstm ? normal({s.states(), batch, kHidden}) : Tensor()};
  const Tensor given = s.batch_first ? x.transpose(0, 1) : x;
  const LSTMOutput all = net.plain(given, start);
  const PackedLSTMOutput packed =
      net.packed(pack_padded_sequence(given, lengths, s.batch_first, false), start);
  const PaddedSequence padded = pad_packed_sequence(packed.output, s.batch_first);
  EXPECT_EQ(padded.lengths, lengths);
  const auto expect = [&](const LSTMState& state, const LoopResult& want, int64_t b,
                          const char* what) {
    expect_rows(state.h.select(1, b), want.h, concat(what, " h of sequence ", b));
    if (kind == RnnKind::kLstm) {
      expect_rows(state.c.select(1, b), want.c, concat(what, " c of sequence ", b));
    }
  };
  for (int64_t b = 0; b < batch; ++b) {
    const Tensor sequence = x.select(1, b);
    const Rows h = state_of(start.h, b, s), c = state_of(start.c, b, s);
    const LoopResult want =
        loop_network(kind, net.state, s.layers, s.bidirectional, rows_of(sequence), h, c);
    const auto of = [&](const Tensor& y) { return y.select(s.batch_first ? 0 : 1, b); };
    expect_rows(of(all.output), want.y, concat("output of sequence ", b));
    expect(all.state, want, b, "padded");
    const LSTMOutput alone = net.plain(
        sequence, {start.h.select(1, b), start.c.defined() ? start.c.select(1, b) : start.c});
    expect_rows(alone.output, want.y, "output without N");
    expect_rows(alone.state.h, want.h, "h without N");
    const int64_t length = lengths[static_cast<size_t>(b)];
    const LoopResult cut = loop_network(kind, net.state, s.layers, s.bidirectional,
                                        rows_of(sequence.narrow(0, 0, length)), h, c);
    expect_rows(of(padded.data).narrow(0, 0, length), cut.y, concat("packed sequence ", b));
    expect(packed.state, cut, b, "packed");
    if (length < 4) {
      EXPECT_EQ(of(padded.data).narrow(0, length, 4 - length).abs().max().item<float>(), 0);
    }
  }
}

TEST(Rnn, ComputesWhatLoopsDo) {
  for (const Device device : testing::devices()) {
    for (const RnnKind kind : {RnnKind::kTanh, RnnKind::kRelu, RnnKind::kLstm, RnnKind::kGru}) {
      check_network(kind, {}, device);
      check_network(kind, {.layers = 3, .bidirectional = true}, device);
      check_network(kind, {.layers = 2, .batch_first = true, .bias = false}, device);
    }
    check_network(RnnKind::kLstm, {.proj_size = 3}, device);
    check_network(RnnKind::kLstm, {.layers = 2, .bidirectional = true, .proj_size = 2}, device);
  }
}

void check_packed_gradients(Device device) {
  SCOPED_TRACE(concat(device));
  GRU gru(kIn, kHidden, {.num_layers = 2, .bidirectional = true});
  gru.to(device);
  std::vector<Tensor> sequences;
  for (const int64_t length : {1, 3, 2}) sequences.push_back(randn({length, kIn}).to(device));
  const auto gradients = [&](const std::function<Tensor()>& loss) {
    gru.zero_grad();
    loss().backward();
    std::vector<Tensor> all;
    for (const Tensor& p : gru.parameters()) all.push_back(p.grad().clone());
    return all;
  };
  const auto packed = gradients([&] {
    const auto all = gru.forward_with_state(pack_sequence(sequences, false));
    return all.output.data.square().sum() + all.h_n.sum();
  });
  const auto alone = gradients([&] {
    Tensor loss = zeros({}, kFloat32, device);
    for (const Tensor& x : sequences) {
      const auto all = gru.forward_with_state(x);
      loss = loss + all.output.square().sum() + all.h_n.sum();
    }
    return loss;
  });
  for (size_t i = 0; i < packed.size(); ++i) {
    EXPECT_LT(largest_difference(packed[i], alone[i]), 1e-5);
    EXPECT_GT(packed[i].abs().max().item<float>(), 1e-3f);
  }
}

TEST(Rnn, GradientsOfPackedSequencesAreThoseOfEachAlone) {
  for (const Device device : testing::devices()) check_packed_gradients(device);
}

// --- Options ------------------------------------------------------------------------------------

TEST(Rnn, DropsBetweenLayersInTrainingOnly) {
  Generator generator(7);
  LSTM lstm(kIn, kHidden, {.num_layers = 2, .dropout = 0.5, .generator = &generator});
  const Tensor x = randn({3, 2, kIn});
  generator.manual_seed(7);
  const Tensor got = lstm(x);
  // The same by two networks of one layer, with the mask drawn from the same seed.
  LSTM first(kIn, kHidden), second(kHidden, kHidden);
  const TensorMap all = lstm.state_dict();
  for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
    first.load_state_dict({{concat(name, "_l0"), all.at(concat(name, "_l0"))}}, false);
    second.load_state_dict({{concat(name, "_l0"), all.at(concat(name, "_l1"))}}, false);
  }
  generator.manual_seed(7);
  const Tensor between = dropout(first(x).flatten(0, 1), 0.5, true, &generator);
  EXPECT_TRUE(same(got, second(between.unflatten(0, {3, 2}))));
  EXPECT_GT(eq(between, 0).sum().item<int64_t>(), 0);
  lstm.eval();
  EXPECT_TRUE(same(lstm(x), second(first(x))));
}

TEST(Rnn, NamesWeightsAsPyTorch) {
  const LSTM lstm(3, 4, {.num_layers = 2, .bidirectional = true, .proj_size = 2});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : lstm.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "weight_ih_l0",         "weight_hh_l0",         "bias_ih_l0",
                       "bias_hh_l0",           "weight_hr_l0",         "weight_ih_l0_reverse",
                       "weight_hh_l0_reverse", "bias_ih_l0_reverse",   "bias_hh_l0_reverse",
                       "weight_hr_l0_reverse", "weight_ih_l1",         "weight_hh_l1",
                       "bias_ih_l1",           "bias_hh_l1",           "weight_hr_l1",
                       "weight_ih_l1_reverse", "weight_hh_l1_reverse", "bias_ih_l1_reverse",
                       "bias_hh_l1_reverse",   "weight_hr_l1_reverse"}));
  EXPECT_EQ(lstm.state_dict().at("weight_ih_l1").shape(), (Shape{16, 4}));
  EXPECT_EQ(lstm.state_dict().at("weight_hh_l0").shape(), (Shape{16, 2}));
  EXPECT_EQ(lstm.state_dict().at("weight_hr_l0").shape(), (Shape{2, 4}));
  EXPECT_EQ(GRU(3, 4, {.bias = false}).state_dict().size(), 2u);
  EXPECT_EQ(lstm.description(), "LSTM(3, 4, num_layers=2, bidirectional=true, proj_size=2)");
}

TEST(Rnn, StartsUniformByTheHiddenSize) {
  const GRU gru(8, 25);
  for (const Tensor& p : gru.parameters()) {
    const double most = p.detach().abs().max().item<float>();
    EXPECT_LE(most, 0.2);
    EXPECT_GT(most, 0.15);
    EXPECT_NEAR(p.detach().mean().item<float>(), 0, 0.05);
  }
}

TEST(Rnn, KeepsItsWeightsWhereItIsClonedAndMoved) {
  LSTM lstm(kIn, kHidden);
  LSTM copy = clone(lstm);
  const Tensor x = randn({2, 3, kIn});
  EXPECT_TRUE(same(lstm(x), copy(x)));
  copy.weights[0].weight_hh = Parameter(zeros({4 * kHidden, kHidden}));
  EXPECT_FALSE(same(lstm(x), copy(x)));
  const LSTM moved = std::move(copy);
  EXPECT_EQ(moved.state_dict().at("weight_hh_l0").abs().max().item<float>(), 0);
}

TEST(Rnn, HasTheSameBitsInEveryRunAndForAnyBatchOfThreads) {
  LSTM lstm(kIn, kHidden, {.num_layers = 2});
  const Tensor x = randn({6, 3, kIn});
  const auto run = [&](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    lstm.zero_grad();
    const Tensor y = lstm(x);
    y.sum().backward();
    set_num_threads(before);
    return cat({y.detach().flatten(), lstm.weights[0].weight_hh.grad().flatten()});
  };
  EXPECT_TRUE(same(run(1), run(1)));
  EXPECT_TRUE(same(run(1), run(2)));
}

TEST(Rnn, TakesNoSequencesAtAll) {
  LSTM lstm(kIn, kHidden, {.bidirectional = true});
  const LSTMOutput all = lstm.forward_with_state(zeros({3, 0, kIn}));
  EXPECT_EQ(all.output.shape(), (Shape{3, 0, 2 * kHidden}));
  EXPECT_EQ(all.state.c.shape(), (Shape{2, 0, kHidden}));
  all.output.sum().backward();
  EXPECT_EQ(lstm.weights[0].weight_ih.grad().abs().max().item<float>(), 0);
}

TEST(Rnn, SaysWhatDoesNotFit) {
  LSTM lstm(kIn, kHidden, {.num_layers = 2});
  const auto error = [&](const Tensor& x, const LSTMState& state = {}) {
    return error_of([&] { lstm.forward_with_state(x, state); });
  };
  EXPECT_EQ(error(randn({3, 2, 4})),
            "LSTM: input has the wrong shape: got [3, 2, 4], expected 3 axes, the last of size 5");
  EXPECT_EQ(error(randn({5})), "LSTM: input needs 2 or 3 axes: got shape [5]");
  EXPECT_EQ(error(zeros({0, 2, kIn})), "LSTM: input has no time step: got shape [0, 2, 5]");
  EXPECT_EQ(error(randn({3, 2, kIn}), {randn({2, 3, kHidden}), {}}),
            "LSTM: h_0 has the wrong shape: got [2, 3, 4], expected [2, 2, 4] for an input "
            "[3, 2, 5]");
  EXPECT_EQ(error(randn({3, kIn}), {{}, randn({2, 1, kHidden})}),
            "LSTM: c_0 has the wrong shape: got [2, 1, 4], expected [2, 4] for an input [3, 5]");
  EXPECT_EQ(error_of([] { LSTM(0, 4); }),
            "LSTM: wrong input_size or hidden_size: got 0 and 4, expected 1 or more");
  EXPECT_EQ(error_of([] { GRU(3, 4, {.dropout = 1.5}); }),
            "GRU: dropout: got 1.5, expected a value in [0, 1]");
  EXPECT_EQ(error_of([] { LSTM(3, 4, {.proj_size = 4}); }),
            "LSTM: proj_size: got 4, expected 0 to 3");
  EXPECT_EQ(error_of([] { RNN(3, 4, {.num_layers = 0}); }),
            "RNN: num_layers: got 0, expected 1 or more");
}

// --- Cells --------------------------------------------------------------------------------------

template <class Cell, class Net>
void load_cell(Cell& cell, const Net& net) {
  for (const auto& [name, tensor] : net.state_dict()) {
    cell.load_state_dict({{name.substr(0, name.size() - 3), tensor}}, false);
  }
}

TEST(RnnCells, AreOneStepOfTheLayers) {
  const Tensor x = randn({2, 3, kIn});
  GRU gru(kIn, kHidden);
  GRUCell gru_cell(kIn, kHidden);
  load_cell(gru_cell, gru);
  EXPECT_LT(largest_difference(gru(x)[1], gru_cell.forward(x[1], gru_cell(x[0]))), 1e-6);
  RNN rnn(kIn, kHidden, {.nonlinearity = Nonlinearity::kRelu});
  RNNCell rnn_cell(kIn, kHidden, {.nonlinearity = Nonlinearity::kRelu});
  load_cell(rnn_cell, rnn);
  EXPECT_LT(largest_difference(rnn(x)[1], rnn_cell.forward(x[1], rnn_cell(x[0]))), 1e-6);
  LSTM lstm(kIn, kHidden);
  LSTMCell lstm_cell(kIn, kHidden);
  load_cell(lstm_cell, lstm);
  const LSTMState after = lstm_cell.forward_with_state(x[1], lstm_cell.forward_with_state(x[0]));
  const LSTMOutput all = lstm.forward_with_state(x);
  EXPECT_LT(largest_difference(all.state.h[0], after.h), 1e-6);
  EXPECT_LT(largest_difference(all.state.c[0], after.c), 1e-6);
  const LSTMState one = lstm_cell.forward_with_state(x[0][0]);
  EXPECT_EQ(one.c.shape(), (Shape{kHidden}));
  EXPECT_LT(largest_difference(one.h, lstm_cell(x[0])[0]), 1e-6);
  EXPECT_EQ(gru_cell.description(), "GRUCell(5, 4)");
  EXPECT_EQ(error_of([&] {
              gru_cell(randn({2, 4}));
            }),
            "GRUCell: input has the wrong shape: got [2, 4], expected [N, 5] or [5]");
  EXPECT_EQ(error_of([&] {
              gru_cell.forward(x[0], randn({2, kHidden}));
            }),
            "GRUCell: h has the wrong shape: got [2, 4], expected [3, 4] for an input [3, 5]");
}

}  // namespace
}  // namespace wick::nn
