#pragma once

#include <span>
#include <vector>

#include "wick/core/ops/rnn.h"

namespace wick {

/// Error unless a recurrent layer of this kind can have these inputs. With `is_bidirectional` the
/// states are [2, B, ...], and `weights` are those of either direction.
void check_rnn_layer(RnnKind kind, const Tensor& x, const std::vector<int64_t>& batch_sizes,
                     const Tensor& h_0, const Tensor& c_0, const RnnWeights& weights,
                     bool is_bidirectional = false);

/// What both directions give, as bidirectional_rnn_layer returns it.
RnnResult side_by_side(const RnnResult& forward, const RnnResult& backward);

/// The layer by the vendor's library; nothing is defined where that does not compute it. `inputs`:
/// checked, float32 or float64: x, h_0, c_0, and the weights of one direction, or of both, in the
/// order of RnnWeights.
RnnResult library_rnn_layer(RnnKind kind, const std::vector<int64_t>& batch_sizes,
                            std::span<const Tensor> inputs);

}  // namespace wick
