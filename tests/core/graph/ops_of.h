#pragma once

#include <string>

#include "wick/core/graph/graph.h"

namespace wick::testing {

/// The names of a graph's ops in their order, those of a fused node in braces.
inline std::string ops_of(const graph::Graph& graph) {
  std::string text;
  for (const graph::Node& node : graph.nodes) {
    text += (text.empty() ? "" : " ") + std::string(node.op.info().name);
    if (node.body.empty()) continue;
    text += "{";
    for (const graph::Node& part : node.body) text += std::string(" ") + part.op.info().name;
    text += " }";
  }
  return text;
}

}  // namespace wick::testing
