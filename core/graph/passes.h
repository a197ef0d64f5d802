#pragma once

#include "wick/core/graph/graph.h"

// Changes of a graph. Each returns the number of nodes removed, and keeps every bit of the results,
// where it does not say otherwise.
namespace wick::graph {

/// Removes nodes whose results are not read, and which change no memory of the program's.
int64_t remove_dead_nodes(Graph& graph);

/// Removes nodes that compute what an earlier node computed. Results of the graph stay separate.
int64_t merge_common_nodes(Graph& graph);

/// Copies the program's tensors that the graph does not change, as they are now. fold_constants()
/// can then compute what depends on them alone.
void freeze_constants(Graph& graph);
/// Computes nodes that depend on frozen constants alone, or on tensors that the traced function
/// made on the host. Their results become constants.
int64_t fold_constants(Graph& graph);

/// Folds batch norms with running statistics into the convolutions (1-D, 2-D, 3-D, transposed)
/// whose results they alone read: weights are scaled, and biases shifted. What else a norm does, a
/// sum with a residual or ReLU, becomes ops of its own. Weights, statistics and parameters must be
/// frozen. Results differ from the function's by rounding. Norms stay in training mode, where
/// gradients flow through them, and where a folded weight would not be finite. Returns the number
/// of norms folded.
int64_t fold_batch_norms(Graph& graph);

/// Joins convolutions, linear layers and products with what follows, where nothing else reads what
/// is between. Convolutions take in a residual and ReLU; linear layers ReLU or GELU (by tanh);
/// products a constant factor.
///
/// On the CPU that is in float32, and for linear layers with ReLU in any dtype: kernels finish
/// results while they are in the near cache. With `may_round` it joins linear layers and products
/// on a GPU, too, and linear layers with a residual. Results differ by rounding there.
int64_t fuse_epilogues(Graph& graph, bool may_round = false);

/// Joins elementwise ops of one shape that follow one another, and on the CPU a reduction that ends
/// them, into one node. There an Executor runs the node tile by tile in the cache.
int64_t fuse_elementwise(Graph& graph);

/// Frees results of batch norms and of convolutions with few products after forward, and recomputes
/// them before backward reads them, as long as that lowers the most memory that values hold at
/// once. Eager steps recompute norms without a residual alone (set_recompute()). Graphs without a
/// backward pass stay as they are. Returns the number of nodes added.
int64_t recompute_cheap_nodes(Graph& graph);

/// fold_constants(), merge_common_nodes(), remove_dead_nodes(), recompute_cheap_nodes() unless
/// set_recompute() is off, fuse_epilogues() and fuse_elementwise(), in this order.
void optimize(Graph& graph);

/// freeze_constants(), fold_constants() and fold_batch_norms(), then optimize(), whose
/// fuse_epilogues() may round.
void optimize_for_inference(Graph& graph);

}  // namespace wick::graph
