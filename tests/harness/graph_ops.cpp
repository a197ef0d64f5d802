#include "wick/tests/harness/graph_ops.h"

#include <unordered_set>

#include "wick/core/autograd.h"

namespace wick::testing {

std::vector<std::string> graph_ops(const std::vector<Tensor>& outputs) {
  std::vector<std::string> names;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> waiting;
  for (const Tensor& output : outputs) {
    if (output.defined() && output.grad_fn() != nullptr) waiting.push_back(output.grad_fn());
  }
  while (!waiting.empty()) {
    const Node* node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node).second) continue;
    const std::string name = node->name();
    names.push_back(name.substr(0, name.find('(')));
    for (const Edge& edge : node->next()) {
      if (edge.node) waiting.push_back(edge.node.get());
    }
  }
  return names;
}

}  // namespace wick::testing
