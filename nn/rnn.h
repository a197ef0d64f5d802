#pragma once

#include <vector>

#include "wick/core/base/rnn_kind.h"
#include "wick/nn/module.h"
#include "wick/nn/packed_sequence.h"

namespace wick {
class Generator;
}

// Recurrent layers, with the parameters, shapes and meaning of PyTorch's. T: time steps, N:
// sequences, H: hidden_size, P: the width of h (H, or proj_size), D: 2 if bidirectional, else 1, L:
// num_layers.
//   input   [T, N, input_size], [N, T, input_size] with batch_first, or one sequence [T,
//           input_size]; or packed, of sequences of several lengths (nn/packed_sequence.h)
//   output  [T, N, D P] in the same form: h of the last layer after each step, forward then back
//   states  h [D L, N, P] and c [D L, N, H], without N for one sequence; layer by layer, forward
//           then back; zeros where undefined, and on return as they are after the last step
// forward() gives the output alone, from states of zeros.
namespace wick::nn {

/// What a plain recurrent layer applies to each unit.
enum class Nonlinearity : uint8_t { kTanh, kRelu };

/// Options of GRU, named as those of torch.nn.GRU. The constructor throws unless `num_layers` is 1
/// or more and `dropout` is in [0, 1]. `batch_first`: input and output are [N, T, ...].
struct GRUOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // chance that an element between two layers is dropped in training
  bool bidirectional = false;
  Generator* generator = nullptr;  // of dropout, as Dropout's
};

/// Options of RNN, named as those of torch.nn.RNN; bounds are those of GRUOptions.
struct RNNOptions {
  int64_t num_layers = 1;
  Nonlinearity nonlinearity = Nonlinearity::kTanh;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // as GRUOptions'
  bool bidirectional = false;
  Generator* generator = nullptr;
};

/// Options of LSTM, named as those of torch.nn.LSTM; bounds are those of GRUOptions. The
/// constructor throws unless 0 <= proj_size < hidden_size.
struct LSTMOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  // as GRUOptions'
  bool bidirectional = false;
  int64_t proj_size = 0;  // if not 0, h is projected to this width (Sak et al. 2014, 1402.1128)
  Generator* generator = nullptr;
};

/// What RNN and GRU return: h of the last layer after each step, and h of each layer after the
/// last. Shapes: output [T, N, D H], or packed; h_n [D L, N, H]; D: 2 if bidirectional, else 1, L:
/// layers.
struct RNNOutput {
  Tensor output, h_n;
};
/// RNNOutput of packed sequences.
struct PackedRNNOutput {
  PackedSequence output;
  Tensor h_n;
};
/// The state of an LSTM.
struct LSTMState {
  Tensor h, c;
};
/// What LSTM returns: h of the last layer after each step, and the state after the last.
struct LSTMOutput {
  Tensor output;
  LSTMState state;
};
/// LSTMOutput of packed sequences.
struct PackedLSTMOutput {
  PackedSequence output;
  LSTMState state;
};

/// What recurrent layers share.
class RNNBase : public Module {
 public:
  /// The output alone, from a state of zeros.
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

  /// The weights of one direction of one layer, registered as weight_ih_l0, ..., _reverse.
  struct Weights {
    Parameter
        weight_ih;  // [G H, input_size, or D P], G: gates_of(kind), in the order i f g o, r z n
    Parameter weight_hh;         // [G H, P]
    Parameter bias_ih, bias_hh;  // [G H], or undefined
    Parameter weight_hr;         // [P, H] of projections, or undefined
  };
  std::vector<Weights> weights;  // by layer, forward then back

 protected:
  RNNBase(RnnKind kind, int64_t input_size, int64_t hidden_size, const LSTMOptions& options);
  /// What forward_with_state() calls, seen by summaries. c is undefined but for LSTM.
  LSTMOutput run(const Tensor& x, const LSTMState& state);
  PackedLSTMOutput run(const PackedSequence& x, const LSTMState& state);

 private:
  LSTMOutput compute(const Tensor& x, const LSTMState& state) const;
  PackedLSTMOutput compute(const PackedSequence& x, const LSTMState& state) const;
  LSTMOutput compute_rows(const Tensor& rows, const std::vector<int64_t>& batch_sizes,
                          const LSTMState& state) const;
  void check_input(const Tensor& x, int rank) const;
  void check_state(const LSTMState& state, const Tensor& x, int64_t batch, bool batched) const;
  int64_t directions() const { return options_.bidirectional ? 2 : 1; }
  int64_t width() const { return options_.proj_size > 0 ? options_.proj_size : hidden_size_; }
  const char* name() const;

  RnnKind kind_;
  int64_t input_size_, hidden_size_;
  LSTMOptions options_;
};

/// A plain recurrent network: h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it.
class RNN : public RNNBase {
 public:
  RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {});
  /// The output, and h after the last step, from `h_0` or, where that is undefined, from zeros.
  /// Error for a shape that does not fit.
  RNNOutput forward_with_state(const Tensor& x, const Tensor& h_0 = {});
  PackedRNNOutput forward_with_state(const PackedSequence& x, const Tensor& h_0 = {});
};

/// Long short-term memory (Hochreiter & Schmidhuber 1997), without peepholes.
class LSTM : public RNNBase {
 public:
  LSTM(int64_t input_size, int64_t hidden_size, const LSTMOptions& options = {});
  /// The output, and h and c after the last step. They start from `state`; h or c that is undefined
  /// starts from zeros. Error for a shape that does not fit.
  LSTMOutput forward_with_state(const Tensor& x, const LSTMState& state = {});
  PackedLSTMOutput forward_with_state(const PackedSequence& x, const LSTMState& state = {});
};

/// Gated recurrent units (Cho et al. 2014, arXiv 1406.1078), r applied after the product with W_hn.
class GRU : public RNNBase {
 public:
  GRU(int64_t input_size, int64_t hidden_size, const GRUOptions& options = {});
  /// The output, and h after the last step, from `h_0` or, where that is undefined, from zeros.
  /// Error for a shape that does not fit.
  RNNOutput forward_with_state(const Tensor& x, const Tensor& h_0 = {});
  PackedRNNOutput forward_with_state(const PackedSequence& x, const Tensor& h_0 = {});
};

/// Options of RNNCell. `bias`: with bias_ih and bias_hh.
struct RNNCellOptions {
  bool bias = true;
  Nonlinearity nonlinearity = Nonlinearity::kTanh;
};
/// Options of LSTMCell and GRUCell. `bias`: with bias_ih and bias_hh.
struct CellOptions {
  bool bias = true;
};

/// What one step of recurrent layers shares. x: [N, input_size] or [input_size], h and c: [N, H] or
/// [H], zeros where undefined.
class RNNCellBase : public Module {
 public:
  std::string description() const override;

  Parameter weight_ih;         // [G H, input_size]
  Parameter weight_hh;         // [G H, H]
  Parameter bias_ih, bias_hh;  // [G H], or undefined

 protected:
  RNNCellBase(RnnKind kind, int64_t input_size, int64_t hidden_size, bool bias);
  LSTMState step(const Tensor& x, const LSTMState& state) const;  // the state after it

 private:
  RnnKind kind_;
};

/// One step of RNN: h after it.
class RNNCell : public RNNCellBase {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, const RNNCellOptions& options = {});
  /// h after the step, from the given h or from zeros.
  Tensor forward(const Tensor& x) override { return step(x, {}).h; }
  Tensor forward(const Tensor& x, const Tensor& h) { return step(x, {h, {}}).h; }
};

/// One step of LSTM.
class LSTMCell : public RNNCellBase {
 public:
  LSTMCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {});
  /// h after a step from zeros.
  Tensor forward(const Tensor& x) override { return step(x, {}).h; }
  /// The state after a step.
  LSTMState forward_with_state(const Tensor& x, const LSTMState& state = {});
};

/// One step of GRU: h after it.
class GRUCell : public RNNCellBase {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, const CellOptions& options = {});
  /// h after the step, from the given h or from zeros.
  Tensor forward(const Tensor& x) override { return step(x, {}).h; }
  Tensor forward(const Tensor& x, const Tensor& h) { return step(x, {h, {}}).h; }
};

}  // namespace wick::nn
