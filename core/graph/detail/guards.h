#pragma once

#include <vector>

#include "wick/core/graph/graph.h"

namespace wick::graph {

/// What a traced function read of the program beside elements of tensors, and what it set. The
/// graph stands for the function while a call would read the same.
struct Guards {
  /// Whether ops that were recorded for backward found that a tensor requires a gradient.
  struct Flag {
    Tensor tensor;
    bool requires_grad = false;
  };
  /// Whether a leaf had a gradient.
  struct Gradient {
    Tensor leaf;
    bool is_defined = false;
    Tensor same = {};  // the one that it must be, if the graph can take no other
  };

  std::vector<Flag> flags;
  std::vector<Gradient> gradients;
  std::vector<Tensor> replaced;  // leaves whose gradients are replaced before anything reads them
  std::vector<Tensor> dropped;   // leaves that have no gradient at the end, and had one before
  // Memory that nodes made from inputs, the program's tensors or draws. What the program still
  // holds of it once the trace has ended, no later run would change.
  std::vector<Ref<Storage>> made;

  /// Whether all is as it was read.
  bool hold() const;
};

/// What a run reads for a constant; undefined if a leaf has no gradient.
Tensor current(const Constant& constant);
/// Whether a constant has the dtype, device and layout of its value.
bool is_like(const Tensor& constant, const Value& value);

/// As zero_grad() does.
void drop_gradients(const std::vector<Tensor>& leaves);

}  // namespace wick::graph
