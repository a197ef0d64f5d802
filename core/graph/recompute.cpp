#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "wick/core/graph/detail/rewrite.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/passes.h"

namespace wick::graph {

namespace {

// When the memory that nodes make is held, over the run of a graph.
class Lifetimes {
 public:
  explicit Lifetimes(const Graph& graph)
      : bytes_(graph.values.size()),
        first_(graph.values.size(), kNever),
        last_(graph.values.size()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      for_each_output(node, [&](ValueId id) { make(graph, id, n); });
      for_each_input(node, [&](ValueId id) { read(graph, id, n); });
      // A host call may keep what it is given, as leaves keep their gradients.
      if (is_host_call(node)) {
        for_each_input(node, [&](ValueId id) { read(graph, id, graph.nodes.size()); });
      }
    }
    for (const ValueId id : graph.outputs) {
      if (id != kNone) read(graph, id, graph.nodes.size());
    }
    find_peak(graph);
  }

  int64_t peak_bytes() const { return peak_bytes_; }
  /// The node that runs when most memory is held, the first of several.
  size_t peak() const { return peak_; }
  int64_t bytes(ValueId root) const { return bytes_[at(root)]; }
  bool is_held_through(ValueId root, size_t node) const {
    return first_[at(root)] < node && node < last_[at(root)];
  }

 private:
  static constexpr size_t kNever = SIZE_MAX;

  static size_t at(ValueId id) { return static_cast<size_t>(id); }
  void make(const Graph& graph, ValueId id, size_t n) {
    const Value& value = graph.value(id);
    const size_t root = at(value.root);
    if (value.root == id) {
      first_[root] = n;
      bytes_[root] = value.shape.numel() * size_of(value.dtype);
    }
    last_[root] = n;
  }
  void read(const Graph& graph, ValueId id, size_t n) {
    size_t& last = last_[at(graph.value(id).root)];
    last = std::max(last, n);
  }
  void find_peak(const Graph& graph) {
    std::vector<int64_t> change(graph.nodes.size() + 2);
    for (size_t root = 0; root < bytes_.size(); ++root) {
      if (first_[root] == kNever) continue;
      change[first_[root]] += bytes_[root];
      change[last_[root] + 1] -= bytes_[root];
    }
    int64_t held = 0;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      held += change[n];
      const int64_t bytes = held + graph.nodes[n].workspace;
      if (bytes > peak_bytes_) peak_bytes_ = bytes, peak_ = n;
    }
  }

  std::vector<int64_t> bytes_;  // by root
  std::vector<size_t> first_, last_;
  int64_t peak_bytes_ = 0;
  size_t peak_ = 0;
};

// Batch norms that kept their statistics, and convolutions with few products for each element of
// the result: the first layer's, for instance. Reading and writing memory takes most of their time.
bool is_cheap(const Graph& graph, const Node& node) {
  constexpr int64_t kMostProducts = 128;
  if (node.outputs.size() != 1 || node.outputs[0] == kNone) return false;
  if (op_name(node) == "batch_norm") {
    return node.kept.size() == 6 && node.kept[3] != kNone && node.kept[4] != kNone;
  }
  if (op_name(node) != "conv2d") return false;
  const Shape& weight = graph.value(node.inputs[1]).shape;
  return weight[0] > 0 && weight.numel() / weight[0] <= kMostProducts;
}

// A node that computes what a cheap one does, but for its output.
Node recomputation(const Node& node) {
  if (op_name(node) == "conv2d") {
    return {.op = node.op,
            .inputs = node.inputs,
            .outputs = {kNone},
            .workspace = node.workspace,
            .place = node.place};
  }
  Node again{new_op("batch_norm_recompute")};
  again.op.set("relu", attribute(node, "relu"));
  again.inputs.assign(node.inputs.begin(), node.inputs.begin() + 4);
  again.inputs.insert(again.inputs.end(), {node.kept[3], node.kept[4]});
  again.outputs = {kNone, kNone};
  again.place = node.place;
  return again;
}

// Whether nodes from number `begin` on change what `node` reads.
bool changes_inputs(const Graph& graph, const Node& node, size_t begin) {
  std::set<ValueId> roots;
  for_each_input(node, [&](ValueId id) { roots.insert(graph.value(id).root); });
  for (size_t n = begin; n < graph.nodes.size(); ++n) {
    for (size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) {
      const ValueId id = graph.nodes[n].inputs[i];
      if (id != kNone && changes(graph.nodes[n], i) && roots.contains(graph.value(id).root)) {
        return true;
      }
    }
  }
  return false;
}

bool reads(const Node& node, ValueId id) {
  return std::count(node.inputs.begin(), node.inputs.end(), id) > 0;
}

// Recomputes what cheap nodes make, where it is held while most memory is.
class Recomputation {
 public:
  explicit Recomputation(const Graph& graph)
      : graph_(graph), lifetimes_(graph), makers_(graph.values.size(), kNoNode) {
    const std::vector<bool> changed = changed_roots(graph);
    for (size_t n = 0; n < lifetimes_.peak(); ++n) {
      const Node& node = graph.nodes[n];
      if (!is_cheap(graph, node)) continue;
      const auto made = static_cast<size_t>(node.outputs[0]);
      if (graph.values[made].root == node.outputs[0] && !changed[made]) makers_[made] = n;
    }
  }

  // The graph with the least peak that was found.
  Graph run() {
    Graph best = graph_;
    std::set<size_t> chosen;
    for (const size_t n : candidates()) {
      std::set<size_t> more = chosen;
      choose(n, more);
      std::optional<Graph> other = with(more);
      if (!other) continue;
      const int64_t gained = Lifetimes(best).peak_bytes() - Lifetimes(*other).peak_bytes();
      if (gained <= 0 || bytes(more) - bytes(chosen) > kMostBytesForOne * gained) continue;
      best = *std::move(other);
      chosen = std::move(more);
    }
    return best;
  }

 private:
  static constexpr size_t kNoNode = SIZE_MAX;
  static constexpr int64_t kMostBytesForOne = 4;  // recomputed, for one byte off the peak

  // The cheap node that makes a value; kNoNode if none does.
  size_t maker(ValueId id) const {
    return id == kNone ? kNoNode : makers_[static_cast<size_t>(id)];
  }
  bool is_held(ValueId id) const { return lifetimes_.is_held_through(id, lifetimes_.peak()); }

  int64_t bytes(const std::set<size_t>& nodes) const {
    int64_t sum = 0;
    for (const size_t n : nodes) sum += lifetimes_.bytes(graph_.nodes[n].outputs[0]);
    return sum;
  }

  // Those whose results are held at the peak: first those that recompute least for a byte, of these
  // the largest.
  std::vector<size_t> candidates() const {
    std::vector<std::tuple<double, int64_t, size_t>> found;
    for (const size_t n : makers_) {
      if (n == kNoNode || !is_held(graph_.nodes[n].outputs[0])) continue;
      std::set<size_t> needed;
      choose(n, needed);
      const int64_t own = bytes({n});
      if (own > 0) found.emplace_back(static_cast<double>(bytes(needed)) / own, -own, n);
    }
    std::sort(found.begin(), found.end());
    std::vector<size_t> nodes;
    for (const auto& [cost, own, n] : found) nodes.push_back(n);
    return nodes;
  }

  // With what would be held longer for it.
  void choose(size_t n, std::set<size_t>& chosen) const {
    if (!chosen.insert(n).second) return;
    for (const ValueId id : recomputation(graph_.nodes[n]).inputs) {
      if (maker(id) != kNoNode && !is_held(id)) choose(maker(id), chosen);
    }
  }

  // The graph in which each chosen node runs once more after the peak, before the first node that
  // reads its result. None if what it reads may have changed by then.
  std::optional<Graph> with(const std::set<size_t>& chosen) const {
    Graph graph = graph_;
    const auto first = graph.nodes.begin() + static_cast<std::ptrdiff_t>(lifetimes_.peak()) + 1;
    std::vector<Node> rest(first, graph.nodes.end());
    graph.nodes.erase(first, graph.nodes.end());
    std::map<size_t, ValueId> again;
    bool is_same = true;
    const std::function<void(Node)> add = [&](Node node) {
      for (ValueId& id : node.inputs) {
        const size_t n = maker(id);
        if (!chosen.contains(n)) continue;
        if (!again.contains(n)) {
          Node copy = recomputation(graph_.nodes[n]);
          is_same = is_same && !changes_inputs(graph, copy, n);
          graph.values.push_back(graph.value(id));
          const auto made = static_cast<ValueId>(graph.values.size() - 1);
          graph.values.back().root = made;
          copy.outputs[0] = made;
          again[n] = made;
          add(std::move(copy));
        }
        id = again[n];
      }
      graph.nodes.push_back(std::move(node));
    };
    for (Node& node : rest) add(std::move(node));
    return is_same ? std::optional(std::move(graph)) : std::nullopt;
  }

  const Graph& graph_;
  Lifetimes lifetimes_;
  std::vector<size_t> makers_;  // by value
};

// Takes the masks of ReLUs from recomputations of their norms, so that they are not held from
// forward on.
void recompute_masks(Graph& graph) {
  std::map<ValueId, Node*> norms;  // by the mean that they keep
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    if (is_cheap(graph, node) && op_name(node) == "batch_norm") norms[node.kept[3]] = &node;
    if (op_name(node) != "batch_norm_recompute") continue;
    const auto norm = norms.find(node.inputs[4]);
    if (norm == norms.end() || node.outputs[1] != kNone) continue;
    ValueId& mask = norm->second->kept[5];
    const auto reads_mask = [mask](const Node& other) { return reads(other, mask); };
    const auto here = graph.nodes.begin() + static_cast<std::ptrdiff_t>(n);
    if (mask == kNone || std::any_of(graph.nodes.begin(), here, reads_mask)) continue;
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back(graph.value(mask));
    graph.values.back().root = id;
    node.op.set("masks", true);
    node.outputs[1] = id;
    for (size_t i = n + 1; i < graph.nodes.size(); ++i) {
      std::replace(graph.nodes[i].inputs.begin(), graph.nodes[i].inputs.end(), mask, id);
    }
    mask = kNone;
  }
}

}  // namespace

int64_t recompute_cheap_nodes(Graph& graph) {
  const auto keeps = [](const Node& node) { return !node.kept.empty(); };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), keeps)) return 0;
  const auto before = std::ssize(graph.nodes);
  for (;;) {
    // A lower peak may lie elsewhere, where others are held.
    Graph lower = Recomputation(graph).run();
    if (lower.nodes.size() == graph.nodes.size()) break;
    graph = std::move(lower);
  }
  recompute_masks(graph);
  return std::ssize(graph.nodes) - before;
}

}  // namespace wick::graph
