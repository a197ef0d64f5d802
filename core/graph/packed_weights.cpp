#include "wick/core/graph/detail/packed_weights.h"

#include <map>
#include <string_view>

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

// The weight of a linear layer with its columns contiguous, as a product of some rows reads it
// without packing it in each call; undefined where such a layout gains nothing. Products of fewer
// rows or columns read rows of the weight. Of more rows packing costs little.
Tensor by_columns(const Graph& graph, const Node& node, const Tensor& weight) {
  const std::string_view name = op_name(node);
  if (name != "linear" && name != "linear_relu" && name != "linear_gelu") return {};
  constexpr int64_t kFew = 32, kMany = 192;
  const int64_t columns = weight.size(0);
  if (columns <= kFew || !weight.device().is_cpu() || !weight.is_contiguous()) return {};
  const int64_t rows = graph.value(node.outputs[0]).shape.numel() / columns;
  if (rows <= kFew || rows > kMany) return {};
  return weight.t().contiguous().t();
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
    if (node.inputs.size() < 2 || !node.kept.empty()) continue;
    const auto weight = weights.find(node.inputs[1]);
    if (weight == weights.end() || weight->second.dtype() != kFloat32) continue;
    const auto packed_id = static_cast<ValueId>(graph.values.size() + packed.size());
    if (Tensor turned = by_columns(graph, node, weight->second); turned.defined()) {
      node.inputs[1] = packed_id;
      packed.push_back(std::move(turned));
    }
    if (op_name(node) != "conv2d" && op_name(node) != "conv2d_fused") continue;
    const Shape &x = graph.value(node.inputs[0]).shape, &y = graph.value(node.outputs[0]).shape;
    PackedConvWeight made = pack_conv_weight(x, y, weight->second, steps_of(node));
    if (!made.weight.defined()) continue;
    take_packed(node, packed_id, made.algorithm);
    packed.push_back(std::move(made.weight));
  }
  return packed;
}

}  // namespace wick::graph
