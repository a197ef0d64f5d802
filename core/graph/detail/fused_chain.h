#pragma once

#include <vector>

#include "wick/core/graph/graph.h"
#include "wick/kernels/elementwise_chain.h"

namespace wick::graph {

/// How a fused node runs on the CPU: the loops of its ops' functors, tile by tile.
class FusedChain {
 public:
  /// Has the ops note which kernels they would call. `values`: the tensors that the node reads.
  FusedChain(const Graph& graph, const Node& node, const std::vector<Tensor>& values);

  /// Whether all of the ops can run so: each calls one kernel on its inputs as they are.
  bool is_possible() const { return is_possible_; }
  /// Makes the node's outputs.
  void run(const Graph& graph, const Node& node, std::vector<Tensor>& values) const;

 private:
  class Planner;
  ElementwiseChain chain_;
  std::vector<ValueId> views_;  // outputs, then what is read
  bool is_possible_ = false;
};

}  // namespace wick::graph
