#pragma once

#include <functional>
#include <string>
#include <vector>

#include "wick/core/graph/graph.h"

namespace wick::graph {

/// Calls `work`, which is not made of ops: an optimizer's step, for instance. Within a trace the
/// call becomes a node, and each run of the graph calls `work` at that place. Each of `leaves` that
/// has a gradient now gets the gradient of the run before that.
/// `work` receives the run's `tensors`. It may change them and the leaves, and returns a new tensor
/// or an undefined one.
Tensor host_call(const std::string& name,
                 std::function<Tensor(const std::vector<Tensor>& tensors)> work,
                 const std::vector<Tensor>& leaves, const std::vector<Tensor>& tensors = {});

/// Whether a node is a host_call, which no pass may move, drop or repeat.
bool is_host_call(const Node& node);
/// How many leaves a host_call has: its first inputs are their gradients, and then come the leaves.
size_t num_leaves(const Node& node);
/// Whether no pass may drop or repeat a node: a host_call, or an exchange with other ranks.
bool is_lasting(const Node& node);

}  // namespace wick::graph
