#pragma once

#include "wick/core/base/rnn_kind.h"
#include "wick/kernels/declare.h"

// The gates of recurrent layers, one time step of B sequences and H units at a time. Views are
// [B, H] unless said otherwise, row-major without gaps, of one dtype, float32 or float64. G: the
// gates of the kind, in PyTorch's order: LSTM i f g o, GRU r z n.
namespace wick {

/// How many numbers per unit backward needs of a step: the gates, and for a GRU beside them what
/// the state adds to n, before r. The others start from h.
constexpr int64_t kept_of(RnnKind kind) {
  return kind == RnnKind::kLstm || kind == RnnKind::kGru ? 4 : 0;
}

struct RnnStep {
  RnnKind kind = RnnKind::kTanh;
  View x, h;    // [B, G H]: what input and state add to each gate
  View bias;    // [G H]: added to h; or undefined
  View cell;    // LSTM: c, before and then after the step
  View hidden;  // h, before (read by the GRU) and then after the step; or undefined
  View kept;    // [B, kept_of(kind) H] for backward, may be x; or undefined
  View cells;   // LSTM: c after the step; or undefined
  View y;       // h after the step
};

struct RnnStepGradient {
  RnnKind kind = RnnKind::kTanh;
  View kept;    // as RnnStep's
  View before;  // LSTM: c, GRU: h before the step
  View after;   // LSTM: c, tanh and ReLU: h after the step
  View dh, dy;  // gradients of h after the step, of which the sum counts; dy may be undefined
  View carry;   // LSTM: gradient of c, GRU: of h but for what goes through gates; after the step on
                // entry, before it on return. For a GRU it counts towards h after the step
  View dgates;  // [B, G H]: result, the gradient of x
  View dgates_h;  // GRU: [B, G H]: result, the gradient of h with its bias; of others dgates is
};

WICK_KERNEL(rnn_forward, (const RnnStep& step));
WICK_KERNEL(rnn_backward, (const RnnStepGradient& step));

}  // namespace wick
