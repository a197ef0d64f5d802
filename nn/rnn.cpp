#include "wick/nn/rnn.h"

#include <cmath>

#include "wick/core/ops/index.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/rnn.h"
#include "wick/core/ops/view.h"
#include "wick/nn/init.h"

namespace wick::nn {

namespace {

const char* class_of(RnnKind kind) {
  return kind == RnnKind::kLstm ? "LSTM" : kind == RnnKind::kGru ? "GRU" : "RNN";
}
RnnKind kind_of(Nonlinearity nonlinearity) {
  return nonlinearity == Nonlinearity::kTanh ? RnnKind::kTanh : RnnKind::kRelu;
}

// PyTorch's: uniform in +-1/sqrt(hidden_size), biases too.
Tensor initial(const Shape& shape, int64_t hidden_size) {
  const Tensor weight = empty(shape);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  init::uniform_(weight, -bound, bound);
  return weight;
}

void check_sizes(const char* name, int64_t input_size, int64_t hidden_size) {
  WICK_CHECK(input_size >= 1 && hidden_size >= 1, name, ": wrong input_size or hidden_size: got ",
             input_size, " and ", hidden_size, ", expected 1 or more");
}

// States [D L, N, ...] with the sequences in another order.
Tensor in_order(const Tensor& state, const std::vector<int64_t>& order) {
  if (!state.defined() || order.empty()) return state;
  return index_select(state, 1, tensor(order, {}, state.device()));
}

}  // namespace

RNNBase::RNNBase(RnnKind kind, int64_t input_size, int64_t hidden_size, const LSTMOptions& options)
    : kind_(kind), input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  check_sizes(name(), input_size, hidden_size);
  WICK_CHECK(options.num_layers >= 1, name(), ": num_layers: got ", options.num_layers,
             ", expected 1 or more");
  WICK_CHECK(options.dropout >= 0 && options.dropout <= 1, name(), ": dropout: got ",
             options.dropout, ", expected a value in [0, 1]");
  WICK_CHECK(options.proj_size >= 0 && options.proj_size < hidden_size, name(), ": proj_size: got ",
             options.proj_size, ", expected 0 to ", hidden_size - 1);
  const int64_t gates = gates_of(kind) * hidden_size;
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    const int64_t columns = layer == 0 ? input_size : directions() * width();
    for (int64_t direction = 0; direction < directions(); ++direction) {
      const std::string suffix = concat("_l", layer, direction == 1 ? "_reverse" : "");
      const auto make = [&](const char* what, bool is_there, const Shape& shape) {
        return add_parameter(what + suffix, is_there ? initial(shape, hidden_size) : Tensor());
      };
      Weights own;
      own.weight_ih = make("weight_ih", true, {gates, columns});
      own.weight_hh = make("weight_hh", true, {gates, width()});
      own.bias_ih = make("bias_ih", options.bias, {gates});
      own.bias_hh = make("bias_hh", options.bias, {gates});
      own.weight_hr = make("weight_hr", options.proj_size > 0, {width(), hidden_size});
      weights.push_back(std::move(own));
    }
  }
}

const char* RNNBase::name() const { return class_of(kind_); }

void RNNBase::check_input(const Tensor& x, int rank) const {
  WICK_CHECK(x.rank(name()) == rank && x.size(-1) == input_size_, name(),
             ": input has the wrong shape: got ", x.shape(), ", expected ", rank,
             " axes, the last of size ", input_size_);
}

void RNNBase::check_state(const LSTMState& state, const Tensor& x, int64_t batch,
                          bool batched) const {
  const auto check = [&](const char* what, const Tensor& given, int64_t columns) {
    if (!given.defined()) return;
    const int64_t layers = options_.num_layers * directions();
    const Shape want = batched ? Shape{layers, batch, columns} : Shape{layers, columns};
    WICK_CHECK(given.shape() == want, name(), ": ", what, " has the wrong shape: got ",
               given.shape(), ", expected ", want, " for an input ", x.shape());
  };
  check("h_0", state.h, width());
  check("c_0", state.c, hidden_size_);
}

// Rows as core/ops/rnn.h has them, states [D L, N, ...].
LSTMOutput RNNBase::compute_rows(const Tensor& rows, const std::vector<int64_t>& batch_sizes,
                                 const LSTMState& state) const {
  std::vector<Tensor> hs, cs;
  Tensor x = rows;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    const int64_t place = layer * directions();
    const auto weights_at = [&](int64_t i) -> RnnWeights {
      const Weights& own = weights[static_cast<size_t>(i)];
      return {own.weight_ih, own.weight_hh, own.bias_ih, own.bias_hh, own.weight_hr};
    };
    const auto states_at = [&](const Tensor& s) {
      if (!s.defined()) return s;
      return options_.bidirectional ? s.narrow(0, place, 2) : s[place];
    };
    const Tensor h_0 = states_at(state.h), c_0 = states_at(state.c);
    const RnnResult result =
        options_.bidirectional
            ? bidirectional_rnn_layer(kind_, x, batch_sizes, h_0, c_0, weights_at(place),
                                      weights_at(place + 1))
            : rnn_layer(kind_, x, batch_sizes, false, h_0, c_0, weights_at(place));
    hs.push_back(result.h_n);
    cs.push_back(result.c_n);
    x = result.y;
    if (layer + 1 < options_.num_layers) {
      x = dropout(x, options_.dropout, is_training(), options_.generator);
    }
  }
  const auto joined = [&](const std::vector<Tensor>& states) {
    if (!states[0].defined()) return Tensor();
    return options_.bidirectional ? cat(states) : stack(states);
  };
  return {x, {joined(hs), joined(cs)}};
}

LSTMOutput RNNBase::compute(const Tensor& x, const LSTMState& state) const {
  WICK_CHECK(x.rank(name()) == 2 || x.rank() == 3, name(), ": input needs 2 or 3 axes: got shape ",
             x.shape());
  const bool batched = x.rank() == 3;
  check_input(x, x.rank());
  Tensor steps = batched ? x : x.unsqueeze(1);
  if (batched && options_.batch_first) steps = steps.transpose(0, 1);
  const int64_t length = steps.size(0), batch = steps.size(1);
  WICK_CHECK(length >= 1, name(), ": input has no time step: got shape ", x.shape());
  check_state(state, x, batch, batched);
  const auto with_batch = [&](const Tensor& s) {
    return s.defined() && !batched ? s.unsqueeze(1) : s;
  };
  const auto as_given = [&](const Tensor& s) { return s.defined() && !batched ? s.squeeze(1) : s; };
  const std::vector<int64_t> batch_sizes(static_cast<size_t>(length), batch);
  const LSTMOutput all =
      compute_rows(steps.flatten(0, 1), batch_sizes, {with_batch(state.h), with_batch(state.c)});
  Tensor output = all.output.unflatten(0, {length, batch});
  if (batched && options_.batch_first) output = output.transpose(0, 1);
  return {as_given(output), {as_given(all.state.h), as_given(all.state.c)}};
}

PackedLSTMOutput RNNBase::compute(const PackedSequence& x, const LSTMState& state) const {
  check_input(x.data, 2);
  WICK_CHECK(!x.batch_sizes.empty(), name(), ": the packed input has no time step");
  check_state(state, x.data, x.batch_sizes[0], true);
  const LSTMOutput all =
      compute_rows(x.data, x.batch_sizes,
                   {in_order(state.h, x.sorted_indices), in_order(state.c, x.sorted_indices)});
  return {x.with(all.output),
          {in_order(all.state.h, x.unsorted_indices), in_order(all.state.c, x.unsorted_indices)}};
}

LSTMOutput RNNBase::run(const Tensor& x, const LSTMState& state) {
  ForwardScope scope(*this);
  LSTMOutput all = compute(x, state);
  all.output = scope.made(all.output);
  return all;
}

PackedLSTMOutput RNNBase::run(const PackedSequence& x, const LSTMState& state) {
  ForwardScope scope(*this);
  PackedLSTMOutput all = compute(x, state);
  all.output.data = scope.made(all.output.data);
  return all;
}

Tensor RNNBase::forward(const Tensor& x) { return compute(x, {}).output; }

std::string RNNBase::description() const {
  return concat(name(), "(", input_size_, ", ", hidden_size_,
                options_.num_layers > 1 ? concat(", num_layers=", options_.num_layers) : "",
                kind_ == RnnKind::kRelu ? ", nonlinearity=relu" : "",
                options_.bias ? "" : ", bias=false",
                options_.batch_first ? ", batch_first=true" : "",
                options_.dropout > 0 ? concat(", dropout=", options_.dropout) : "",
                options_.bidirectional ? ", bidirectional=true" : "",
                options_.proj_size > 0 ? concat(", proj_size=", options_.proj_size) : "", ")");
}

RNN::RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& o)
    : RNNBase(kind_of(o.nonlinearity), input_size, hidden_size,
              {o.num_layers, o.bias, o.batch_first, o.dropout, o.bidirectional, 0, o.generator}) {}

RNNOutput RNN::forward_with_state(const Tensor& x, const Tensor& h_0) {
  const LSTMOutput all = run(x, {h_0, {}});
  return {all.output, all.state.h};
}
PackedRNNOutput RNN::forward_with_state(const PackedSequence& x, const Tensor& h_0) {
  const PackedLSTMOutput all = run(x, {h_0, {}});
  return {all.output, all.state.h};
}

LSTM::LSTM(int64_t input_size, int64_t hidden_size, const LSTMOptions& options)
    : RNNBase(RnnKind::kLstm, input_size, hidden_size, options) {}

LSTMOutput LSTM::forward_with_state(const Tensor& x, const LSTMState& state) {
  return run(x, state);
}
PackedLSTMOutput LSTM::forward_with_state(const PackedSequence& x, const LSTMState& state) {
  return run(x, state);
}

GRU::GRU(int64_t input_size, int64_t hidden_size, const GRUOptions& o)
    : RNNBase(RnnKind::kGru, input_size, hidden_size,
              {o.num_layers, o.bias, o.batch_first, o.dropout, o.bidirectional, 0, o.generator}) {}

RNNOutput GRU::forward_with_state(const Tensor& x, const Tensor& h_0) {
  const LSTMOutput all = run(x, {h_0, {}});
  return {all.output, all.state.h};
}
PackedRNNOutput GRU::forward_with_state(const PackedSequence& x, const Tensor& h_0) {
  const PackedLSTMOutput all = run(x, {h_0, {}});
  return {all.output, all.state.h};
}

RNNCellBase::RNNCellBase(RnnKind kind, int64_t input_size, int64_t hidden_size, bool bias)
    : kind_(kind) {
  check_sizes(class_of(kind), input_size, hidden_size);
  const int64_t gates = gates_of(kind) * hidden_size;
  weight_ih = add_parameter("weight_ih", initial({gates, input_size}, hidden_size));
  weight_hh = add_parameter("weight_hh", initial({gates, hidden_size}, hidden_size));
  bias_ih = add_parameter("bias_ih", bias ? initial({gates}, hidden_size) : Tensor());
  bias_hh = add_parameter("bias_hh", bias ? initial({gates}, hidden_size) : Tensor());
}

LSTMState RNNCellBase::step(const Tensor& x, const LSTMState& state) const {
  const std::string name = concat(class_of(kind_), "Cell");
  WICK_CHECK((x.rank() == 1 || x.rank() == 2) && x.size(-1) == weight_ih.size(1), name,
             ": input has the wrong shape: got ", x.shape(), ", expected [N, ", weight_ih.size(1),
             "] or [", weight_ih.size(1), "]");
  const bool batched = x.rank() == 2;
  const auto row = [&](const char* what, const Tensor& given) {
    if (!given.defined()) return given;
    const int64_t units = weight_hh.size(1);
    const Shape want = batched ? Shape{x.size(0), units} : Shape{units};
    WICK_CHECK(given.shape() == want, name, ": ", what, " has the wrong shape: got ", given.shape(),
               ", expected ", want, " for an input ", x.shape());
    return batched ? given : given.unsqueeze(0);
  };
  const Tensor rows = batched ? x : x.unsqueeze(0);
  const RnnResult result =
      rnn_layer(kind_, rows, {rows.size(0)}, false, row("h", state.h), row("c", state.c),
                {weight_ih, weight_hh, bias_ih, bias_hh, {}});
  if (batched) return {result.h_n, result.c_n};
  return {result.h_n.squeeze(0), result.c_n.defined() ? result.c_n.squeeze(0) : Tensor()};
}

std::string RNNCellBase::description() const {
  return concat(class_of(kind_), "Cell(", weight_ih.size(1), ", ", weight_hh.size(1),
                kind_ == RnnKind::kRelu ? ", nonlinearity=relu" : "",
                bias_ih.defined() ? "" : ", bias=false", ")");
}

RNNCell::RNNCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options)
    : RNNCellBase(kind_of(options.nonlinearity), input_size, hidden_size, options.bias) {}

LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, const CellOptions& options)
    : RNNCellBase(RnnKind::kLstm, input_size, hidden_size, options.bias) {}

LSTMState LSTMCell::forward_with_state(const Tensor& x, const LSTMState& state) {
  ForwardScope scope(*this);
  LSTMState next = step(x, state);
  next.h = scope.made(next.h);
  return next;
}

GRUCell::GRUCell(int64_t input_size, int64_t hidden_size, const CellOptions& options)
    : RNNCellBase(RnnKind::kGru, input_size, hidden_size, options.bias) {}

}  // namespace wick::nn
