#include "wick/core/graph/passes.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "wick/core/graph/host_call.h"

namespace wick::graph {

namespace {

size_t at(ValueId id) { return static_cast<size_t>(id); }

// Whose change somebody else sees: the program's own tensors, and inputs.
std::vector<bool> outside_roots(const Graph& graph) {
  std::vector<bool> outside(graph.values.size());
  for (const ValueId id : graph.inputs) outside[at(graph.value(id).root)] = true;
  for (const Constant& constant : graph.constants) {
    if (!constant.copied) outside[at(graph.value(constant.value).root)] = true;
  }
  return outside;
}

}  // namespace

int64_t remove_dead_nodes(Graph& graph) {
  std::vector<bool> is_read(graph.values.size()), root_is_read = outside_roots(graph);
  const auto read = [&](ValueId id) {
    is_read[at(id)] = true;
    root_is_read[at(graph.value(id).root)] = true;
  };
  for (const ValueId id : graph.outputs) {
    if (id != kNone) read(id);
  }
  std::vector<bool> stays(graph.nodes.size());
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    stays[n] = is_lasting(node);
    for_each_output(node, [&](ValueId id) { stays[n] = stays[n] || is_read[at(id)]; });
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!changes(node, i) || node.inputs[i] == kNone) continue;
      stays[n] = stays[n] || root_is_read[at(graph.value(node.inputs[i]).root)];
    }
    if (stays[n]) for_each_input(node, read);
  }
  size_t next = 0;
  const auto gone = std::remove_if(graph.nodes.begin(), graph.nodes.end(),
                                   [&](const Node&) { return !stays[next++]; });
  const int64_t removed = graph.nodes.end() - gone;
  graph.nodes.erase(gone, graph.nodes.end());
  std::erase_if(graph.constants, [&](const Constant& c) { return !is_read[at(c.value)]; });
  return removed;
}

namespace {

// All that decides about a node's results; none where something else may.
std::optional<std::string> key_of(const Node& node) {
  if (!node.body.empty() || node.draw >= 0 || node.op.info().mutates != 0 || is_lasting(node)) {
    return std::nullopt;
  }
  std::string key;
  const auto append = [&key](const auto& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  append(&node.op.type());
  append(node.needs);
  append(node.inputs.size());
  for (const ValueId id : node.inputs) append(id);
  for (const NamedAttribute& attribute : node.op.attributes()) {
    if (std::holds_alternative<std::monostate>(attribute.value)) return std::nullopt;
    if (const auto* real = std::get_if<double>(&attribute.value)) {
      append(*real);  // bit by bit, as -0 is not 0 here
    } else {
      key += wick::to_string(attribute.value) + '\0';
    }
  }
  return key;
}

class Renaming {
 public:
  explicit Renaming(size_t values) : to_(values) {
    for (size_t i = 0; i < values; ++i) to_[i] = static_cast<ValueId>(i);
  }
  void rename(ValueId from, ValueId to) { to_[at(from)] = to; }
  void apply(std::vector<ValueId>& ids) const {
    for (ValueId& id : ids) {
      if (id != kNone) id = to_[at(id)];
    }
  }

 private:
  std::vector<ValueId> to_;
};

}  // namespace

int64_t merge_common_nodes(Graph& graph) {
  const std::vector<bool> changed = changed_roots(graph);
  std::vector<bool> is_result(graph.values.size());
  for (const ValueId id : graph.outputs) {
    if (id != kNone) is_result[at(graph.value(id).root)] = true;
  }
  const auto stays_apart = [&](ValueId id) {
    const size_t root = at(graph.value(id).root);
    return changed[root] || is_result[root];
  };
  std::map<std::string, const Node*> seen;
  Renaming renaming(graph.values.size());
  std::vector<Node> kept;
  kept.reserve(graph.nodes.size());  // pointers into it stay
  for (Node& node : graph.nodes) {
    renaming.apply(node.inputs);
    bool alone = false;
    for_each_output(node, [&](ValueId id) { alone = alone || stays_apart(id); });
    for_each_input(node, [&](ValueId id) { alone = alone || changed[at(graph.value(id).root)]; });
    const std::optional<std::string> key = alone ? std::nullopt : key_of(node);
    const auto found = key ? seen.find(*key) : seen.end();
    const bool same =
        found != seen.end() && (node.kept.empty() || node.kept == found->second->kept);
    if (!same) {
      kept.push_back(std::move(node));
      if (key) seen.emplace(*key, &kept.back());
      continue;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone) renaming.rename(node.outputs[i], found->second->outputs[i]);
    }
  }
  const auto merged = static_cast<int64_t>(graph.nodes.size() - kept.size());
  graph.nodes = std::move(kept);
  // Roots of views of what was merged.
  for (Value& value : graph.values) {
    std::vector<ValueId> root = {value.root};
    renaming.apply(root);
    value.root = root[0];
  }
  return merged;
}

void freeze_constants(Graph& graph) {
  const std::vector<bool> changed = changed_roots(graph);
  for (Constant& constant : graph.constants) {
    if (constant.is_private || changed[at(graph.value(constant.value).root)]) continue;
    if (constant.gradient_of.defined()) continue;
    constant.tensor = constant.tensor.detach().clone();
    constant.is_private = true;
  }
}

int64_t fold_constants(Graph& graph) {
  constexpr int64_t kMostBytes = int64_t{1} << 24;  // what may be stored to save its computation
  const std::vector<bool> changed = changed_roots(graph);
  std::map<ValueId, Tensor> known;
  for (const Constant& constant : graph.constants) {
    const bool same = constant.is_private && !changed[at(graph.value(constant.value).root)];
    if (same) known.emplace(constant.value, constant.tensor);
  }
  int64_t folded = 0;
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    bool is_known = node.draw < 0 && node.op.info().mutates == 0 && node.body.empty() &&
                    node.kept.empty() && !node.inputs.empty() && !is_lasting(node);
    for_each_input(node, [&](ValueId id) { is_known = is_known && known.contains(id); });
    for_each_output(node, [&](ValueId id) {
      const Value& value = graph.value(id);
      is_known = is_known && !changed[at(value.root)] &&
                 value.shape.numel() * size_of(value.dtype) <= kMostBytes;
    });
    if (is_known) {
      std::vector<Tensor> inputs;
      for (const ValueId id : node.inputs) inputs.push_back(id == kNone ? Tensor() : known.at(id));
      const std::vector<Tensor> made = replay_op(node.op.type(), node.op.get(), inputs, nullptr);
      bool is_own = true;
      for (size_t i = 0; i < made.size(); ++i) {
        if (node.outputs[i] == kNone) continue;
        known.emplace(node.outputs[i], made[i]);
        is_own = is_own && graph.value(node.outputs[i]).root == node.outputs[i];
      }
      if (is_own) {
        for (size_t i = 0; i < made.size(); ++i) {
          if (node.outputs[i] == kNone) continue;
          graph.constants.push_back({node.outputs[i], made[i], "", false, true});
        }
        ++folded;
        continue;
      }
    }
    kept.push_back(std::move(node));  // a view of a constant, too
  }
  graph.nodes = std::move(kept);
  return folded;
}

namespace {
void optimize(Graph& graph, bool may_round) {
  fold_constants(graph);
  merge_common_nodes(graph);
  remove_dead_nodes(graph);
  if (recompute_enabled()) recompute_cheap_nodes(graph);
  fuse_epilogues(graph, may_round);
  fuse_elementwise(graph);
}
}  // namespace

void optimize(Graph& graph) { optimize(graph, /*may_round=*/false); }

void optimize_for_inference(Graph& graph) {
  freeze_constants(graph);
  fold_constants(graph);  // casts of weights, too
  fold_batch_norms(graph);
  optimize(graph, /*may_round=*/true);
}

}  // namespace wick::graph
