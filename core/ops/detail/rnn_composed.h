#pragma once

#include <span>
#include <vector>

#include "wick/core/base/rnn_kind.h"
#include "wick/core/ops/rnn.h"
#include "wick/core/tensor.h"

namespace wick {

/// The rows of one time step of a packed batch.
struct RnnRows {
  int64_t first = 0;
  int64_t count = 0;
};
/// The steps in the order in which they are computed.
std::vector<RnnRows> rnn_steps(const std::vector<int64_t>& batch_sizes, bool reverse);

/// rnn_layer made of other ops: what second derivatives are taken of, and what the tests compare
/// the fused kernels with. h_0 and c_0 may be undefined.
RnnResult composed_rnn_layer(RnnKind kind, const Tensor& x, const std::vector<int64_t>& batch_sizes,
                             bool reverse, const Tensor& h_0, const Tensor& c_0,
                             const RnnWeights& weights);

}  // namespace wick
