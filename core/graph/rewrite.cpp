#include "wick/core/graph/detail/rewrite.h"

namespace wick::graph {

OpInstance new_op(std::string_view name) {
  for (const OpType* type : registered_ops()) {
    if (name != type->info.name || type->create == nullptr) continue;
    void* op = type->create();
    OpInstance instance(*type, op);
    type->destroy(op);
    return instance;
  }
  wick::detail::fail("graph: no op of this program is called ", name);
}

Attribute attribute(const Node& node, std::string_view name) {
  for (const NamedAttribute& each : node.op.attributes()) {
    if (name == each.name) return each.value;
  }
  wick::detail::fail("graph: ", op_name(node), " has no attribute ", name);
}

Uses::Uses(const Graph& graph) : readers_(graph.values.size()) {
  const std::vector<bool> roots = changed_roots(graph);
  for (const Value& value : graph.values) {
    changed_.push_back(roots[static_cast<size_t>(value.root)]);
  }
  const auto count = [this](ValueId id) { ++readers_[static_cast<size_t>(id)]; };
  for (const Node& node : graph.nodes) for_each_input(node, count);
  for (const ValueId id : graph.outputs) {
    if (id != kNone) count(id);
  }
}

bool Uses::is_changed(ValueId id) const { return changed_.at(static_cast<size_t>(id)); }

bool Uses::is_read_once(ValueId id) const {
  return static_cast<size_t>(id) < readers_.size() && readers_[static_cast<size_t>(id)] == 1 &&
         !is_changed(id);
}

}  // namespace wick::graph
