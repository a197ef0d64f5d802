#pragma once

#include <string>
#include <vector>

#include "wick/core/graph/graph.h"
#include "wick/kernels/elementwise_chain.h"

namespace wick::graph {

/// How a fused node runs: on the CPU the loops of its ops' functors, tile by tile; on a GPU one
/// kernel, which is compiled for it.
class FusedChain {
 public:
  /// Has the ops note which kernels they would call. `values`: the tensors that the node reads.
  FusedChain(const Graph& graph, const Node& node, const std::vector<Tensor>& values);

  /// Whether all of the ops can run so: each calls one kernel on its inputs as they are.
  bool is_possible() const { return is_possible_; }
  /// Why no kernel could be compiled, where that is so.
  const std::string& why_not() const { return why_not_; }
  /// Whether it is for such values: on a GPU the ops round by where their inputs begin.
  bool is_for(const Node& node, const std::vector<Tensor>& values) const;
  /// Makes the node's outputs.
  void run(const Graph& graph, const Node& node, std::vector<Tensor>& values) const;

 private:
  class Planner;
  ElementwiseChain chain_;
  std::vector<ValueId> views_;  // outputs, then what is read
  bool is_possible_ = false;
  const cuda::CompiledKernel* kernel_ = nullptr;  // on a GPU
  std::string why_not_;
  uint32_t aligned_ = 0;  // which inputs were aligned to 16 bytes, on a GPU
};

}  // namespace wick::graph
