#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "wick/core/base/rnn_kind.h"
#include "wick/core/base/workspace.h"
#include "wick/kernels/declare.h"

// A whole recurrent layer by the vendor's library: all steps of one direction, or of both. Rows and
// weights are those of core/ops/rnn.h; views are row-major without gaps. A layer backwards alone is
// none of the library's: it has the forward direction, and both.
namespace wick {

inline constexpr uintptr_t kRnnLayerAlignment = 16;  // bytes; of all views but the weights

struct RnnLayerProblem {
  RnnKind kind = RnnKind::kTanh;
  Dtype dtype = Dtype::kFloat32;  // or float64: of 16 bits the library would round every state
  Device device = {};
  int64_t inputs = 0;  // I
  int64_t units = 0;   // H
  int64_t width = 0;   // P: H, but for projections
  bool has_bias = true;
  bool is_bidirectional = false;
  std::vector<int64_t> batch_sizes;  // rows of each step: 1 or more, and never growing

  int64_t directions() const { return is_bidirectional ? 2 : 1; }  // D
  bool is_lstm() const { return kind == RnnKind::kLstm; }
  bool is_projected() const { return width != units; }
  int64_t rows() const {
    return std::accumulate(batch_sizes.begin(), batch_sizes.end(), int64_t{0});
  }
};

/// Of one direction, as RnnWeights of core/ops/rnn.h.
struct RnnLayerWeights {
  View w_ih, w_hh, b_ih, b_hh, w_hr;
};

/// What a layer reads and writes. `reserve`: rnn_layer_reserve bytes for the gradients, or
/// undefined where none will be asked for.
struct RnnLayerPass {
  View x;         // [rows, I]
  View h_0, c_0;  // [D, B, P], [D, B, H] of an LSTM
  View y;         // [rows, D P]
  View h_n, c_n;  // as h_0, c_0
  View reserve;   // uint8
};

/// Gradients, of the same shapes: those of y, h_n and c_n are given, the others results.
struct RnnLayerGradients {
  View dy, dh_n, dc_n;
  View dx, dh_0, dc_0;
};

// No device but a GPU has it.
namespace cuda {

/// Whether the library computes it. Not if deterministic(): the products within promise no bits.
bool has_rnn_layer(const RnnLayerProblem& problem);

/// Bytes that rnn_layer_forward keeps for rnn_layer_backward.
int64_t rnn_layer_reserve(const RnnLayerProblem& problem);

/// Writes y, h_n, c_n and reserve. `weights`: by direction.
void rnn_layer_forward(const RnnLayerProblem& problem, std::span<const RnnLayerWeights> weights,
                       const RnnLayerPass& pass, Workspace& workspace);

/// Writes the gradients, those of weights too unless `dweights` is empty. `pass` is what
/// rnn_layer_forward had and wrote; it stays as it is.
void rnn_layer_backward(const RnnLayerProblem& problem, std::span<const RnnLayerWeights> weights,
                        const RnnLayerPass& pass, const RnnLayerGradients& gradients,
                        std::span<const RnnLayerWeights> dweights, Workspace& workspace);

}  // namespace cuda

}  // namespace wick
