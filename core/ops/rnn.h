#pragma once

#include <vector>

#include "wick/core/base/rnn_kind.h"
#include "wick/core/tensor.h"

namespace wick {

/// The weights of one direction of a recurrent layer, as PyTorch has them: the rows of gate k of
/// unit j are row k H + j, gates in the order i f g o (LSTM) or r z n (GRU).
struct RnnWeights {
  Tensor w_ih;        // [G H, I]
  Tensor w_hh;        // [G H, P]
  Tensor b_ih, b_hh;  // [G H], or both undefined
  Tensor w_hr;        // [P, H] of an LSTM with projections (Sak et al. 2014, arXiv 1402.1128)
};

/// What one direction of a recurrent layer gives.
struct RnnResult {
  Tensor y;    // [rows, P]: h after each step, in the rows of x
  Tensor h_n;  // [B, P]: h of each sequence after its last step
  Tensor c_n;  // [B, H] of an LSTM
};

/// One direction of one recurrent layer over B sequences of several lengths, packed as PyTorch
/// packs them.
/// - The rows of `x` [rows, I] are those of the first time step, then those of the second, and so
///   on.
/// - `batch_sizes`, which must not grow, tells how many rows a step has: one for each sequence that
///   is long enough.
/// - `reverse` begins at each sequence's end.
/// - h_0: [B, P], c_0: [B, H] of an LSTM, zeros where undefined. P is H but with w_hr.
/// - G in the shapes of `weights`: gates_of(kind).
///
/// One floating dtype; 16 bits are computed in float32 and rounded once. Autocast casts to its
/// dtype. Error unless shapes, dtypes and sizes fit and there is a step.
RnnResult rnn_layer(RnnKind kind, const Tensor& x, const std::vector<int64_t>& batch_sizes,
                    bool reverse, const Tensor& h_0, const Tensor& c_0, const RnnWeights& weights);

/// Both directions of one recurrent layer: as rnn_layer with `forward`, and in reverse with
/// `backward`. y: [rows, 2 P], forward then back, h_0 and h_n: [2, B, P], c_0 and c_n: [2, B, H].
/// Error unless the directions have weights of the same shapes, and as rnn_layer.
RnnResult bidirectional_rnn_layer(RnnKind kind, const Tensor& x,
                                  const std::vector<int64_t>& batch_sizes, const Tensor& h_0,
                                  const Tensor& c_0, const RnnWeights& forward,
                                  const RnnWeights& backward);

/// Whether the vendor's library (cuDNN) computes recurrent layers on a GPU where it can: all steps
/// in one call, of both directions together. On unless set. Each time step is one product and one
/// kernel of Wick's instead
/// - where there is one time step alone, as cells have it;
/// - for `reverse` without the other direction, which the library does not have;
/// - for a projection to as many units as there are, which the library ignores;
/// - if deterministic(): the library promises no bits;
/// - where 32 bits cannot count the elements.
/// Second derivatives are of the layer made of other ops either way.
bool library_rnn_enabled();
void set_library_rnn(bool on);

}  // namespace wick
