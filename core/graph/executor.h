#pragma once

#include <memory>
#include <string>
#include <vector>

#include "wick/core/graph/graph.h"

namespace wick::graph {

/// Runs a graph again and again. Not from several threads at once.
class Executor {
 public:
  explicit Executor(Graph graph);
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  /// Results of the traced function for other inputs, without gradients. Error unless the inputs
  /// have the shapes, dtypes and devices of the examples. An input of another layout is copied.
  /// Random numbers are drawn anew.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

  const Graph& graph() const;  // the one given
  /// Bytes of the block that runs on the CPU share; 0 before the third run begins. With a block, a
  /// run asks the allocator for no memory, but for results that the program held when the third
  /// run, or this one, began.
  int64_t arena_bytes() const;
  /// Fused nodes that ran tile by tile, or on a GPU as one kernel. The ops of other fused nodes run
  /// one after another.
  int64_t num_fused() const;
  /// Why no kernel could be compiled for a fused node on a GPU, for instance because NVRTC is not
  /// installed; empty while there was no such node. The process prints the first reason, once.
  const std::string& why_unfused() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs a graph once.
std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs);

}  // namespace wick::graph
