#pragma once

#include <vector>

#include "wick/core/graph/graph.h"

namespace wick::graph {

/// Packs the weights of convolutions and linear layers that the graph alone has as the CPU
/// multiplies them, and has `nodes`, the graph's, take them. Returns them: their value ids follow
/// the graph's.
std::vector<Tensor> pack_weights(const Graph& graph, std::vector<Node>& nodes);

}  // namespace wick::graph
