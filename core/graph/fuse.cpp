#include <algorithm>
#include <list>
#include <set>

#include "wick/core/graph/detail/fused_chain.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/passes.h"

namespace wick::graph {

namespace {

// Elementwise nodes on the way to become one. Their place is where the group is written down.
struct Group {
  std::vector<Node> nodes;
  std::set<ValueId> made;
  std::set<ValueId> read;  // and made elsewhere
};

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph) {
    for (const ValueId id : graph.outputs) {
      if (id != kNone) readers_.insert(id);
    }
    count_readers();
  }

  int64_t run() {
    const size_t before = graph_.nodes.size();
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : nodes) {
      if (can_fuse(node)) {
        take(std::move(node));
      } else if (!end_group(node)) {
        // What changes memory comes after all that reads it before.
        if (node.op.info().mutates != 0 || is_host_call(node)) write_all();
        write_makers(node);
        graph_.nodes.push_back(std::move(node));
      }
    }
    write_all();
    return static_cast<int64_t>(before - graph_.nodes.size());
  }

 private:
  // How often a value is read, by nodes and as a result.
  void count_readers() {
    for (const Node& node : graph_.nodes) {
      for_each_input(node, [&](ValueId id) { readers_.insert(id); });
    }
  }

  bool can_fuse(const Node& node) const {
    const OpInfo& info = node.op.info();
    if (!info.elementwise || !node.body.empty() || !node.kept.empty()) return false;
    if (node.outputs.size() != 1 || node.outputs[0] == kNone) return false;
    const Value& y = graph_.value(node.outputs[0]);
    return is_dense(y.shape, y.strides);
  }

  bool fits(const Group& group, const Node& node) const {
    const Value &a = graph_.value(group.nodes[0].outputs[0]), &b = graph_.value(node.outputs[0]);
    return a.shape == b.shape && a.strides == b.strides && a.device == b.device;
  }

  bool is_small(const Group& group) const {
    constexpr size_t kMostSteps = 24, kMostViews = ElementwiseChain::kMaxViews;
    return group.nodes.size() <= kMostSteps && group.read.size() + results(group) <= kMostViews;
  }

  size_t results(const Group& group) const {
    size_t count = 0;
    for (const ValueId id : group.made) count += is_result(group, id);
    return count;
  }

  // Whether something outside the group reads it.
  bool is_result(const Group& group, ValueId id) const {
    size_t within = 0;
    for (const Node& node : group.nodes) {
      within += static_cast<size_t>(std::count(node.inputs.begin(), node.inputs.end(), id));
    }
    return readers_.count(id) > within;
  }

  static void add(Group& group, Node node) {
    for_each_input(node, [&](ValueId id) {
      if (!group.made.contains(id)) group.read.insert(id);
    });
    group.made.insert(node.outputs[0]);
    group.nodes.push_back(std::move(node));
  }

  void take(Node node) {
    Group joined;
    for (auto group = open_.begin(); group != open_.end();) {
      const bool feeds = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId id) { return group->made.contains(id); });
      if (!feeds) {
        ++group;
        continue;
      }
      Group both = joined;
      for (const Node& part : group->nodes) add(both, part);
      Group with = both;
      add(with, node);
      if (fits(*group, node) && is_small(with)) {
        joined = std::move(both);
      } else {
        write(*group);
      }
      group = open_.erase(group);
    }
    add(joined, std::move(node));
    open_.push_back(std::move(joined));
  }

  // Whether `node` is a reduction of what an open group makes, which then ends with it. Where
  // others read of the group, its own tiles store faster.
  bool end_group(const Node& node) {
    if (!chain_end(graph_, node)) return false;
    const auto group = std::find_if(open_.begin(), open_.end(), [&](const Group& each) {
      return each.made.contains(node.inputs[0]);
    });
    if (group == open_.end()) return false;
    Group with = *group;
    add(with, node);
    if (!is_small(with) || results(with) != 1) return false;
    write(with);
    open_.erase(group);
    return true;
  }

  void write_makers(const Node& node) {
    for (auto group = open_.begin(); group != open_.end();) {
      bool feeds = false;
      for_each_input(node, [&](ValueId id) { feeds = feeds || group->made.contains(id); });
      if (feeds) write(*group);
      group = feeds ? open_.erase(group) : std::next(group);
    }
  }

  void write_all() {
    for (Group& group : open_) write(group);
    open_.clear();
  }

  void write(Group& group) {
    if (group.nodes.size() == 1) {
      graph_.nodes.push_back(std::move(group.nodes[0]));
      return;
    }
    Node fused{group.nodes.back().op};
    fused.inputs.assign(group.read.begin(), group.read.end());
    for (const ValueId id : group.made) {
      if (is_result(group, id)) fused.outputs.push_back(id);
    }
    if (fused.outputs.empty()) return;  // nothing reads what the group computes
    fused.place = group.nodes.back().place;
    fused.body = std::move(group.nodes);
    graph_.nodes.push_back(std::move(fused));
  }

  Graph& graph_;
  std::multiset<ValueId> readers_;
  std::list<Group> open_;
};

}  // namespace

int64_t fuse_elementwise(Graph& graph) { return Fuser(graph).run(); }

}  // namespace wick::graph
