#include <cmath>
#include <map>
#include <optional>

#include "wick/core/graph/detail/rewrite.h"
#include "wick/core/graph/passes.h"

namespace wick::graph {

namespace {

class EpilogueFuser {
 public:
  EpilogueFuser(Graph& graph, bool may_round)
      : graph_(graph),
        uses_(graph),
        may_round_(may_round),
        last_change_(graph.values.size(), kNever) {}

  int64_t run() {
    std::vector<bool> joined(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (join_sum(node) || join_activation(node) || join_factor(node)) {
        joined[maker_] = true;
        node.place = graph_.nodes[maker_].place;
      }
      for_each_output(node, [&](ValueId id) { makers_[id] = i; });
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        if (changes(node, input) && node.inputs[input] != kNone) {
          last_change_[root(node.inputs[input])] = static_cast<int64_t>(i);
        }
      }
    }
    size_t next = 0;
    return static_cast<int64_t>(
        std::erase_if(graph_.nodes, [&](const Node&) { return joined[next++]; }));
  }

 private:
  static constexpr int64_t kNever = -1;

  size_t root(ValueId id) const { return static_cast<size_t>(graph_.value(id).root); }

  // The node that made a value, where `reader` alone reads it, and nothing that the node reads
  // changes before it runs at the place of `reader`.
  const Node* sole_maker(ValueId id, const Node& reader) {
    const auto found = makers_.find(id);
    if (found == makers_.end() || !uses_.is_read_once(id)) return nullptr;
    const Node& node = graph_.nodes[found->second];
    const Value &from = graph_.value(id), &to = graph_.value(reader.outputs[0]);
    bool fits = node.body.empty() && node.kept.empty() && node.outputs[0] == id &&
                reader.kept.empty() && (to.device.is_cpu() || may_round_) &&
                to.dtype == from.dtype && from.shape == to.shape && from.strides == to.strides &&
                !uses_.is_changed(reader.outputs[0]);
    maker_ = found->second;
    for_each_input(node, [&](ValueId input) {
      fits = fits && last_change_[root(input)] < static_cast<int64_t>(maker_);
    });
    return fits ? &node : nullptr;
  }

  // conv2d on the CPU or linear on a GPU, then a sum with a tensor laid out as its results. The
  // CPU's sum after a linear layer takes as long alone.
  bool join_sum(Node& node) {
    if (op_name(node) != "add" || attribute(node, "alpha") != Attribute(int64_t{1})) return false;
    if (!suits(node)) return false;
    for (const size_t i : {0, 1}) {
      const ValueId residual = node.inputs[1 - i];
      const Node* maker = sole_maker(node.inputs[i], node);
      if (maker == nullptr) continue;
      const bool is_linear = !is_on_cpu(node);
      if (op_name(*maker) != (is_linear ? "linear" : "conv2d")) continue;
      const Value &value = graph_.value(residual), &y = graph_.value(node.outputs[0]);
      const bool fits = value.dtype == y.dtype && value.shape == y.shape &&
                        value.strides == y.strides && !uses_.is_changed(residual);
      if (!fits) continue;
      if (is_linear) {
        node.op = new_op("linear_sum");
        node.inputs = {maker->inputs[0], maker->inputs[1], maker->inputs[2], residual};
      } else {
        become_fused(node, *maker);
        node.inputs[3] = residual;
      }
      return true;
    }
    return false;
  }

  // matmul, then a product with a number.
  bool join_factor(Node& node) {
    const std::optional<double> factor = factor_of(node);
    const Node* maker = factor && suits(node) ? sole_maker(node.inputs[0], node) : nullptr;
    if (maker == nullptr || op_name(*maker) != "matmul") return false;
    node.op = new_op("matmul_scaled");
    node.op.set("scale", *factor);
    node.inputs = maker->inputs;
    return true;
  }

  std::optional<double> factor_of(const Node& node) const {
    const bool divides = op_name(node) == "div_scalar";
    if (op_name(node) != "mul_scalar" && !divides) return {};
    const Attribute other = attribute(node, "other");
    const auto* real = std::get_if<double>(&other);
    const auto* whole = std::get_if<int64_t>(&other);
    double factor = real != nullptr ? *real : whole != nullptr ? static_cast<double>(*whole) : NAN;
    int exponent = 0;
    const bool is_power = std::abs(std::frexp(factor, &exponent)) == 0.5;
    if (divides && !is_power && is_on_cpu(node)) return {};  // a product rounds otherwise
    if (divides) factor = 1 / factor;
    const bool is_normal = std::isnormal(static_cast<float>(factor));
    return is_normal ? std::optional(factor) : std::nullopt;
  }

  bool is_on_cpu(const Node& node) const { return graph_.value(node.outputs[0]).device.is_cpu(); }
  bool is_float32(const Node& node) const {
    return graph_.value(node.outputs[0]).dtype == kFloat32;
  }
  // In other dtypes the CPU has nothing faster, or rounds otherwise.
  bool suits(const Node& node) const {
    return is_on_cpu(node) ? is_float32(node) : is_floating(graph_.value(node.outputs[0]).dtype);
  }

  // On the CPU ReLU gives the same bits before and behind rounding; GELU does not.
  bool join_activation(Node& node) {
    const bool is_gelu = op_name(node) == "gelu_tanh";
    if (op_name(node) != "relu" && !(is_gelu && suits(node))) return false;
    const Node* maker = sole_maker(node.inputs[0], node);
    if (maker == nullptr) return false;
    if (op_name(*maker) == "linear") {
      node.op = new_op(is_gelu ? "linear_gelu" : "linear_relu");
      node.inputs = maker->inputs;
      node.outputs.push_back(kNone);  // GELU's argument is the other result
      return true;
    }
    return !is_gelu && is_on_cpu(node) && is_float32(node) && join_relu(node, *maker);
  }

  bool join_relu(Node& node, const Node& maker) {
    if (op_name(maker) == "conv2d") {
      become_fused(node, maker);
    } else if (op_name(maker) == "conv2d_fused" && attribute(maker, "relu") == Attribute(false)) {
      node.op = maker.op;
      node.inputs = maker.inputs;
    } else {
      return false;
    }
    node.op.set("relu", true);
    return true;
  }

  static void become_fused(Node& node, const Node& convolution) {
    node.op = new_op("conv2d_fused");
    for (const NamedAttribute& each : convolution.op.attributes()) {
      node.op.set(each.name, each.value);
    }
    node.inputs = convolution.inputs;
    node.inputs.resize(5, kNone);
  }

  Graph& graph_;
  Uses uses_;
  const bool may_round_;
  std::map<ValueId, size_t> makers_;  // places of nodes
  size_t maker_ = 0;                  // the one that was last asked for
  std::vector<int64_t> last_change_;  // place of the node that changed a root's memory last
};

}  // namespace

int64_t fuse_epilogues(Graph& graph, bool may_round) {
  return EpilogueFuser(graph, may_round).run();
}

}  // namespace wick::graph
