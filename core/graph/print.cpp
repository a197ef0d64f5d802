#include <ostream>

#include "wick/core/graph/graph.h"

namespace wick::graph {

namespace {

std::string name_of(ValueId id) { return id == kNone ? "none" : concat("%", id); }

std::string typed(const Graph& graph, ValueId id) {
  if (id == kNone) return "none";
  return concat("%", id, ": ", graph.value(id).dtype, graph.value(id).shape);
}

std::string attributes_text(const Node& node) {
  std::string text;
  for (const NamedAttribute& attribute : node.op.attributes()) {
    const std::string_view name = attribute.name;
    if (node.draw >= 0 && (name == "seed" || name == "offset")) continue;
    text += concat(text.empty() ? "" : ", ", name, "=", wick::to_string(attribute.value));
  }
  if (node.draw >= 0) text += concat(text.empty() ? "" : ", ", "draw=", node.draw);
  return text;
}

std::string joined(const std::vector<ValueId>& ids) {
  std::string text;
  for (const ValueId id : ids) text += concat(text.empty() ? "" : ", ", name_of(id));
  return text;
}

std::string made_by(const Graph& graph, const Node& node) {
  std::string text;
  for_each_output(node, [&](ValueId id) { text += (text.empty() ? "" : ", ") + typed(graph, id); });
  return text.empty() ? text : text + " = ";
}

std::string line_of(const Graph& graph, const Node& node, const std::string& indent) {
  if (!node.body.empty()) {
    std::string text = concat(indent, made_by(graph, node), "fused(", joined(node.inputs), ") {\n");
    for (const Node& part : node.body) text += line_of(graph, part, indent + "  ");
    return text + indent + "}\n";
  }
  std::string text =
      concat(indent, made_by(graph, node), node.op.info().name, "(", joined(node.inputs));
  const std::string attributes = attributes_text(node);
  if (!attributes.empty()) text += "; " + attributes;
  return text + (node.place.empty() ? ")\n" : concat(")  # ", node.place, "\n"));
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

std::string to_string(const Graph& graph) {
  std::string text = "graph(";
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    text += (i > 0 ? ", " : "") + typed(graph, graph.inputs[i]);
  }
  text += ") {\n";
  for (const Constant& constant : graph.constants) {
    text += concat("  ", typed(graph, constant.value), " = constant(", constant.name, ")\n");
  }
  for (const Node& node : graph.nodes) text += line_of(graph, node, "  ");
  return text + concat("  return ", joined(graph.outputs), "\n}\n");
}

std::ostream& operator<<(std::ostream& out, const Graph& graph) { return out << to_string(graph); }

std::string to_dot(const Graph& graph) {
  std::string text = "digraph {\n  node [shape=box];\n";
  const auto box = [&text](const std::string& name, const std::string& label, const char* style) {
    text += concat("  ", name, " [label=", quoted(label), style, "];\n");
  };
  std::vector<std::string> maker(graph.values.size());
  for (const ValueId id : graph.inputs) {
    maker[static_cast<size_t>(id)] = concat("v", id);
    box(concat("v", id), typed(graph, id), ", shape=ellipse");
  }
  for (const Constant& constant : graph.constants) {
    maker[static_cast<size_t>(constant.value)] = concat("v", constant.value);
    box(concat("v", constant.value), concat(typed(graph, constant.value), " ", constant.name),
        ", shape=ellipse, style=dashed");
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const std::string name = concat("n", i);
    std::string label = node.body.empty() ? node.op.info().name : "fused:";
    for (const Node& part : node.body) label += concat(" ", part.op.info().name);
    box(name, label, "");
    const auto edge = [&](ValueId id) {
      text += concat("  ", maker[static_cast<size_t>(id)], " -> ", name,
                     " [label=", quoted(concat("%", id, " ", graph.value(id).shape)), "];\n");
    };
    for_each_input(node, edge);
    for_each_output(node, [&](ValueId id) { maker[static_cast<size_t>(id)] = name; });
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ValueId id = graph.outputs[i];
    if (id == kNone) continue;
    box(concat("out", i), concat("output ", i), ", shape=ellipse");
    text += concat("  ", maker[static_cast<size_t>(id)], " -> out", i,
                   " [label=", quoted(typed(graph, id)), "];\n");
  }
  return text + "}\n";
}

}  // namespace wick::graph
