#include "wick/core/graph/detail/packed_weights.h"

#include <map>

#include "wick/core/graph/detail/rewrite.h"
#include "wick/core/ops/detail/conv_images.h"

namespace wick::graph {

namespace {

ConvSteps steps_of(const Node& node) {
  const auto shape = [&](const char* name) {
    const Attribute value = attribute(node, name);
    Shape sizes;
    for (const int64_t size : std::get<std::vector<int64_t>>(value)) sizes.push_back(size);
    return sizes;
  };
  return {shape("stride"), shape("padding"), shape("dilation"),
          std::get<int64_t>(attribute(node, "groups"))};
}

void take_packed(Node& node, ValueId weight, int64_t algorithm) {
  OpInstance op = new_op("conv2d_fused");
  for (const NamedAttribute& each : node.op.attributes()) op.set(each.name, each.value);
  op.set("packed_for", algorithm);
  node.op = std::move(op);
  node.inputs.resize(5, kNone);
  node.inputs[4] = weight;
}

}  // namespace

std::vector<Tensor> pack_weights(const Graph& graph, std::vector<Node>& nodes) {
  const Uses uses(graph);
  std::map<ValueId, Tensor> weights;
  for (const Constant& constant : graph.constants) {
    const bool is_known = constant.is_private && !uses.is_changed(constant.value);
    if (is_known) weights.emplace(constant.value, constant.tensor);
  }
  std::vector<Tensor> packed;
  for (Node& node : nodes) {
    const bool is_convolution = op_name(node) == "conv2d" || op_name(node) == "conv2d_fused";
    if (!is_convolution || !node.kept.empty()) continue;
    const auto weight = weights.find(node.inputs[1]);
    if (weight == weights.end() || weight->second.dtype() != kFloat32) continue;
    const Shape &x = graph.value(node.inputs[0]).shape, &y = graph.value(node.outputs[0]).shape;
    PackedConvWeight made = pack_conv_weight(x, y, weight->second, steps_of(node));
    if (!made.weight.defined()) continue;
    take_packed(node, static_cast<ValueId>(graph.values.size() + packed.size()), made.algorithm);
    packed.push_back(std::move(made.weight));
  }
  return packed;
}

}  // namespace wick::graph
