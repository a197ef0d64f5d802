#pragma once

#include <string_view>
#include <vector>

#include "wick/core/graph/graph.h"

// What passes share that replace nodes by others.
namespace wick::graph {

/// The registered op of that name, with the initial values of its fields. Error if there is none.
OpInstance new_op(std::string_view name);

/// The name of a node's op.
inline std::string_view op_name(const Node& node) { return node.op.info().name; }
/// The value of one of its attributes. Error if there is none of that name.
Attribute attribute(const Node& node, std::string_view name);

/// Which values are read, and which memory changes, in a graph as it is now.
class Uses {
 public:
  explicit Uses(const Graph& graph);

  bool is_changed(ValueId id) const;
  /// Whether one node alone reads a value, and no node changes its memory.
  bool is_read_once(ValueId id) const;

 private:
  std::vector<bool> changed_;  // by value
  std::vector<int64_t> readers_;
};

}  // namespace wick::graph
