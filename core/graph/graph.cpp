#include "wick/core/graph/graph.h"

#include <algorithm>

#include "wick/core/base/detail/checked.h"
#include "wick/core/graph/host_call.h"

namespace wick::graph {

void OpInstance::set(const char* name, const Attribute& value) {
  const std::vector<NamedAttribute> attributes = this->attributes();
  std::vector<Attribute> values(attributes.size());
  const auto found = std::find_if(
      attributes.begin(), attributes.end(),
      [name](const NamedAttribute& attribute) { return std::string_view(attribute.name) == name; });
  WICK_CHECK(found != attributes.end(), "graph: ", info().name, " has no attribute ", name);
  values[static_cast<size_t>(found - attributes.begin())] = value;
  const char* wrong = type_->set_attributes(op_, values);
  WICK_CHECK(wrong == nullptr, "graph: ", info().name, ": attribute ", name,
             " is of the wrong kind: got ", wick::to_string(value));
}

void for_each_input(const Node& node, const std::function<void(ValueId)>& visit) {
  for (const ValueId id : node.inputs) {
    if (id != kNone) visit(id);
  }
}

void for_each_output(const Node& node, const std::function<void(ValueId)>& visit) {
  for (const ValueId id : node.outputs) {
    if (id != kNone) visit(id);
  }
  for (const ValueId id : node.kept) {
    if (id != kNone) visit(id);
  }
}

std::vector<bool> changed_roots(const Graph& graph) {
  std::vector<bool> changed(graph.values.size());
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool is_changed = changes(node, i) && node.inputs[i] != kNone;
      if (is_changed) changed[static_cast<size_t>(graph.value(node.inputs[i]).root)] = true;
    }
  }
  return changed;
}

std::vector<bool> made_roots(const Graph& graph) {
  std::vector<bool> varies(graph.values.size()), given(graph.values.size());
  const auto root = [&](ValueId id) { return static_cast<size_t>(graph.value(id).root); };
  for (const ValueId id : graph.inputs) varies[root(id)] = given[root(id)] = true;
  for (const Constant& constant : graph.constants) {
    given[root(constant.value)] = true;
    varies[root(constant.value)] = !constant.copied;
  }
  for (const Node& node : graph.nodes) {
    bool reads = node.draw >= 0;
    for_each_input(node, [&](ValueId id) { reads = reads || varies[root(id)]; });
    const auto note = [&](ValueId id) {
      varies[root(id)] = varies[root(id)] || reads;
      given[root(id)] = given[root(id)] || is_lasting(node);
    };
    for_each_output(node, note);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool is_held = changes(node, i) || is_lasting(node);
      if (is_held && node.inputs[i] != kNone) note(node.inputs[i]);
    }
  }
  for (size_t i = 0; i < varies.size(); ++i) varies[i] = varies[i] && !given[i];
  return varies;
}

namespace {

// Walks a graph in its order and sees that each value is made once, and before it is read.
class Checker {
 public:
  explicit Checker(const Graph& graph) : graph_(graph), is_made_(graph.values.size()) {}

  void run() {
    for (size_t i = 0; i < graph_.values.size(); ++i) check_value(i);
    for (const ValueId id : graph_.inputs) make(id, "an input");
    for (const Constant& constant : graph_.constants) check_constant(constant);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) check_node(graph_.nodes[i], i);
    for (const ValueId id : graph_.outputs) {
      if (id != kNone) read(id, "the outputs");
    }
  }

 private:
  void check_value(size_t i) const {
    const Value& value = graph_.values[i];
    WICK_CHECK(value.shape.rank() == value.strides.rank(), "graph: value ", i,
               " has a shape and strides of different ranks: got ", value.shape, " and ",
               value.strides);
    int64_t extent = 1;
    for (int axis = 0; axis < value.shape.rank(); ++axis) {
      const int64_t size = value.shape[axis], stride = value.strides[axis];
      WICK_CHECK(size >= 0 && stride >= 0 && size < kMost && stride < kMost, "graph: value ", i,
                 " has an impossible layout: got shape ", value.shape, " and strides ",
                 value.strides);
      extent += size > 0 ? (size - 1) * stride : 0;
      WICK_CHECK(extent < kMost, "graph: value ", i, " is too large: got shape ", value.shape);
    }
    checked_numel("graph", value.shape);
    const auto root = static_cast<size_t>(value.root);
    WICK_CHECK(value.root >= 0 && root <= i && graph_.values[root].root == value.root,
               "graph: value ", i, " has an impossible root: got ", value.root);
  }

  void check_id(ValueId id, const std::string& where) const {
    WICK_CHECK(id >= 0 && static_cast<size_t>(id) < graph_.values.size(),
               "graph: no such value in ", where, ": got ", id, ", expected one of ",
               graph_.values.size());
  }
  void make(ValueId id, const std::string& where) {
    check_id(id, where);
    WICK_CHECK(!is_made_[static_cast<size_t>(id)], "graph: value ", id, " is made twice: by ",
               where);
    is_made_[static_cast<size_t>(id)] = true;
  }
  void read(ValueId id, const std::string& where) const {
    check_id(id, where);
    WICK_CHECK(is_made_[static_cast<size_t>(id)], "graph: value ", id,
               " is read before it is made: by ", where);
  }

  void check_constant(const Constant& constant) {
    make(constant.value, "a constant");
    const Value& value = graph_.value(constant.value);
    const Tensor& tensor = constant.tensor;
    if (!tensor.defined() && constant.gradient_of.defined()) return;  // each run checks it
    WICK_CHECK(tensor.defined() && tensor.shape() == value.shape && tensor.dtype() == value.dtype &&
                   tensor.strides() == value.strides,
               "graph: constant ", constant.value, " does not fit its value: got ",
               tensor.defined() ? concat(tensor.dtype(), tensor.shape()) : "none", ", expected ",
               value.dtype, value.shape);
  }

  void check_node(const Node& node, size_t number) {
    const std::string where = concat("node ", number, ", ", node.op.info().name);
    for (const Node& part : node.body) {
      WICK_CHECK(part.body.empty(), "graph: a fused node within a fused node: in ", where);
    }
    const int takes = node.op.type().num_inputs;
    WICK_CHECK(takes < 0 || !node.body.empty() || node.inputs.size() == static_cast<size_t>(takes),
               "graph: ", where, ", has a wrong number of inputs: got ", node.inputs.size(),
               ", expected ", takes);
    for_each_input(node, [&](ValueId id) { read(id, where); });
    WICK_CHECK(node.draw < graph_.draws, "graph: ", where, " has an impossible draw: got ",
               node.draw, ", expected one below ", graph_.draws);
    if (node.body.empty()) return for_each_output(node, [&](ValueId id) { make(id, where); });
    for (size_t i = 0; i < node.body.size(); ++i) check_node(node.body[i], number);
    for_each_output(node, [&](ValueId id) { read(id, where); });
  }

  static constexpr int64_t kMost = int64_t{1} << 40;
  const Graph& graph_;
  std::vector<bool> is_made_;
};

}  // namespace

void check(const Graph& graph) { Checker(graph).run(); }

}  // namespace wick::graph
