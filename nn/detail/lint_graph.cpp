#include "wick/nn/detail/lint_graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "wick/core/autograd.h"
#include "wick/nn/conv.h"
#include "wick/nn/linear.h"

namespace wick::nn {

namespace {

bool is_norm(const Node& node) { return node.name().find("_norm") != std::string::npos; }

// Whether the node is that of an operation with weights.
bool is_layer(const Node& node) {
  for (const char* name : {"conv", "linear", "matmul", "addmm"}) {
    if (node.name().rfind(name, 0) == 0) return true;
  }
  return false;
}

using Users = std::unordered_map<const Node*, std::vector<const Node*>>;

// Whether a layer gets the result of `node` through other operations, none of which normalises.
bool feeds_a_layer_without_norm(const Node* node, const Users& users) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> todo;
  const auto go_on = [&](const Node* from, bool is_layer_counted) {
    const auto found = users.find(from);
    if (found == users.end()) return false;
    for (const Node* user : found->second) {
      if (is_norm(*user) || !seen.insert(user).second) continue;
      if (!is_layer(*user)) {
        todo.push_back(user);
      } else if (is_layer_counted) {
        return true;
      }
    }
    return false;
  };
  go_on(node, false);  // a convolution in two factors needs none between them
  while (!todo.empty()) {
    const Node* next = todo.back();
    todo.pop_back();
    if (go_on(next, true)) return true;
  }
  return false;
}

}  // namespace

std::vector<LayerBias> biases_before_norm(Module& model, const Tensor& x) {
  std::vector<LayerBias> biases;  // in the order of the model
  model.apply([&](const std::string& path, Module& module) {
    Tensor* bias = nullptr;
    if (auto* conv = dynamic_cast<Convolution*>(&module)) bias = &conv->bias;
    if (auto* linear = dynamic_cast<Linear*>(&module)) bias = &linear->bias;
    if (bias == nullptr || !bias->defined() || !bias->requires_grad()) return;
    for (const LayerBias& found : biases) {
      if (found.bias == bias) return;  // a layer of two names
    }
    biases.push_back({path, bias});
  });
  if (biases.empty()) return biases;
  const Tensor y = model(x);
  std::unordered_set<const Node*> seen, before_norm;  // inputs of what feeds a norm
  std::vector<Ref<Node>> todo = {gradient_edge(y).node};
  while (!todo.empty()) {
    const Ref<Node> node = todo.back();
    todo.pop_back();
    if (node.get() == nullptr || !seen.insert(node.get()).second) continue;
    for (const Edge& edge : node->next()) todo.push_back(edge.node);
    if (node->name().rfind("batch_norm", 0) != 0 || node->next().empty()) continue;
    const Node* layer = node->next()[0].node.get();
    if (layer == nullptr) continue;
    for (const Edge& edge : layer->next()) before_norm.insert(edge.node.get());
  }
  std::erase_if(biases, [&](const LayerBias& layer) {
    return !before_norm.contains(gradient_edge(*layer.bias).node.get());
  });
  return biases;
}

std::vector<std::string> convolutions_without_norm(Module& model, const Tensor& x) {
  // By what collects the weight's gradient.
  std::unordered_map<const Node*, std::string> convolutions;
  model.apply([&](const std::string& path, Module& module) {
    const Tensor* weight = nullptr;
    if (auto* conv = dynamic_cast<Convolution*>(&module)) weight = &conv->weight;
    if (weight != nullptr && weight->requires_grad()) {
      convolutions.emplace(gradient_edge(*weight).node.get(), path);
    }
  });
  if (convolutions.empty()) return {};
  const Tensor y = model(x);
  Users users;
  std::vector<std::pair<const Node*, std::string>> made;  // what a convolution computes
  std::unordered_set<const Node*> seen;
  std::vector<Node*> todo = {gradient_edge(y).node.get()};
  while (!todo.empty()) {
    Node* node = todo.back();
    todo.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (const Edge& edge : node->next()) {
      const auto found = convolutions.find(edge.node.get());
      if (found != convolutions.end()) made.emplace_back(node, found->second);
      users[edge.node.get()].push_back(node);
      todo.push_back(edge.node.get());
    }
  }
  std::vector<std::string> bare;
  for (const auto& [node, path] : made) {
    if (feeds_a_layer_without_norm(node, users)) bare.push_back(path);
  }
  std::sort(bare.begin(), bare.end());
  return bare;
}

}  // namespace wick::nn
