#pragma once

#include <optional>
#include <string>
#include <vector>

#include "wick/core/graph/graph.h"
#include "wick/kernels/chain_reduction.h"

namespace wick::graph {

/// A reduction of what elementwise ops make.
struct ChainEnd {
  Reduction kind = Reduction::kSum;
  double factor = 1;
  Shape kept;  // the shape of what is reduced, with size 1 along its axes
};

/// The reduction that a node is, if a fused node may end with it: on the CPU a sum, a mean, the
/// largest or smallest elements, of floating values in rows that are long enough.
std::optional<ChainEnd> chain_end(const Graph& graph, const Node& node);

/// How a fused node runs: on the CPU the loops of its ops' functors, tile by tile, and the
/// reduction that it may end with; on a GPU one kernel, which is compiled for it.
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
  void run(const Graph& graph, std::vector<Tensor>& values) const;

 private:
  class Planner;
  void reduce(const Graph& graph, const View* views, std::vector<Tensor>& values) const;

  ElementwiseChain chain_;
  std::vector<ValueId> views_;   // results of the chain, then what is read
  std::optional<ChainEnd> end_;  // of the chain's one result, which goes to no memory
  ValueId reduced_ = kNone;      // what the reduction makes
  bool is_possible_ = false;
  const cuda::CompiledKernel* kernel_ = nullptr;  // on a GPU
  std::string why_not_;
  uint32_t aligned_ = 0;  // which inputs were aligned to 16 bytes, on a GPU
};

}  // namespace wick::graph
