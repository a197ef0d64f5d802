#include <map>
#include <optional>

#include "wick/core/apply.h"
#include "wick/core/detail/autocast.h"
#include "wick/core/graph/detail/rewrite.h"
#include "wick/core/graph/passes.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/reduce.h"

namespace wick::graph {

namespace {

// Of a convolution's weight: convolutions have the result's channels on axis 0 and take a bias.
bool is_convolution(const Node& node) {
  return op_name(node) == "conv2d" || op_name(node) == "conv3d";
}
// Transposed convolutions have the channels of a group on axis 1. Their bias is added.
bool is_transposed(const Node& node) {
  return op_name(node) == "conv2d_backward_input" || op_name(node) == "conv3d_backward_input";
}

class NormFolder {
 public:
  explicit NormFolder(Graph& graph) : graph_(graph), uses_(graph) {
    for (const Constant& constant : graph.constants) {
      const bool same = constant.is_private && !uses_.is_changed(constant.value);
      if (same) known_.emplace(constant.value, constant.tensor);
    }
  }

  int64_t run() {
    const NoGrad no_grad;
    const amp::Pause as_they_are;
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    int64_t folded = 0;
    for (Node& node : nodes) {
      if (fold(node)) {
        ++folded;
      } else {
        write(std::move(node));
      }
    }
    return folded;
  }

 private:
  // A norm's convolution, what adds a bias to it or null, and the node that the norm reads.
  struct Chain {
    Node* convolution = nullptr;
    Node* bias = nullptr;
    Node* last = nullptr;
  };

  void write(Node node) {
    const bool is_view = node.op.info().view && node.inputs.size() == 1;
    if (is_view && known_.contains(node.inputs[0]) && node.outputs[0] != kNone) {
      const std::vector<Tensor> base = {known_.at(node.inputs[0])};
      known_.emplace(node.outputs[0], replay_op(node.op.type(), node.op.get(), base, nullptr)[0]);
    }
    for_each_output(node, [this](ValueId id) { makers_[id] = graph_.nodes.size(); });
    graph_.nodes.push_back(std::move(node));
  }

  // What made a value that one node alone reads, and none changes; null if there is no such.
  Node* maker(ValueId id) {
    const auto found = makers_.find(id);
    if (found == makers_.end() || !uses_.is_read_once(id)) return nullptr;
    Node& node = graph_.nodes[found->second];
    const bool is_plain = node.body.empty() && node.kept.empty();
    return is_plain && node.outputs[0] == id ? &node : nullptr;
  }

  bool keeps_channels(const Node& node) const {
    if (op_name(node) != "reshape") return false;
    const Shape &from = graph_.value(node.inputs[0]).shape,
                &to = graph_.value(node.outputs[0]).shape;
    return from.rank() >= 2 && to.rank() >= 2 && from[0] == to[0] && from[1] == to[1];
  }

  // Whether a node adds a known number to each channel.
  bool adds_bias(const Node& node) const {
    if (op_name(node) != "add" || !known_.contains(node.inputs[1])) return false;
    const Value &x = graph_.value(node.inputs[0]), &y = graph_.value(node.outputs[0]);
    const Tensor& bias = known_.at(node.inputs[1]);
    return x.shape == y.shape && bias.dtype() == y.dtype && bias.rank() == y.shape.rank() &&
           bias.size(1) == y.shape[1] && bias.numel() == y.shape[1] &&
           attribute(node, "alpha") == Attribute(int64_t{1});
  }

  std::optional<Chain> chain_before(ValueId id) {
    Node* node = maker(id);
    Chain chain{.last = node};
    while (node != nullptr && keeps_channels(*node)) node = maker(node->inputs[0]);
    if (node != nullptr && adds_bias(*node)) {
      chain.bias = node;
      node = maker(node->inputs[0]);
      if (node != nullptr && !is_transposed(*node)) return {};
    }
    if (node == nullptr || !(is_convolution(*node) || is_transposed(*node))) return {};
    chain.convolution = node;
    const std::vector<ValueId>& inputs = node->inputs;
    const bool fits = known_.contains(inputs[1]) &&
                      (inputs.size() < 3 || inputs[2] == kNone || known_.contains(inputs[2]));
    return fits ? std::optional(chain) : std::nullopt;
  }

  // Whether a norm's statistics and parameters are known, and its result is laid out as its input.
  bool can_fold(const Node& norm) const {
    if (op_name(norm) != "batch_norm_eval" || !norm.kept.empty()) return false;
    for (size_t i = 2; i < 6; ++i) {
      if (norm.inputs[i] != kNone && !known_.contains(norm.inputs[i])) return false;
    }
    const Value &x = graph_.value(norm.inputs[0]), &y = graph_.value(norm.outputs[0]);
    return x.strides == y.strides && x.dtype == y.dtype;
  }

  Tensor wide(ValueId id) const { return known_.at(id).to(kFloat64); }

  bool fold(const Node& norm) {
    if (!can_fold(norm)) return false;
    const std::optional<Chain> chain = chain_before(norm.inputs[0]);
    if (!chain) return false;
    Node& convolution = *chain->convolution;
    const std::vector<ValueId>& in = norm.inputs;
    Tensor scale = (wide(in[5]) + std::get<double>(attribute(norm, "eps"))).rsqrt();
    if (in[2] != kNone) scale = scale * wide(in[2]);
    Tensor shift = wide(in[4]) * scale * -1;
    if (in[3] != kNone) shift = shift + wide(in[3]);

    const bool transposed = is_transposed(convolution);
    const ValueId bias = chain->bias != nullptr ? chain->bias->inputs[1]
                         : transposed           ? kNone
                                                : convolution.inputs[2];
    if (bias != kNone) shift = shift + wide(bias).reshape({-1}) * scale;
    const Dtype dtype = graph_.value(norm.inputs[0]).dtype;
    const Tensor weight = scaled(convolution, scale), folded_shift = shift.to(dtype);
    // What one dtype holds apart may be out of its range together.
    if (!isfinite(weight).all().item<bool>() || !isfinite(folded_shift).all().item<bool>()) {
      return false;
    }
    convolution.inputs[1] = add_constant(weight);
    if (!transposed) convolution.inputs[2] = add_constant(folded_shift);
    if (chain->bias != nullptr) {
      chain->bias->inputs[1] = add_constant(folded_shift.reshape(known_.at(bias).shape()));
    }
    const bool adds_shift = transposed && chain->bias == nullptr;
    write_rest(norm, *chain->last, adds_shift ? folded_shift : Tensor());
    return true;
  }

  // The weight with each channel of the result scaled, rounded once, laid out as kernels read it.
  Tensor scaled(const Node& convolution, const Tensor& scale) const {
    const Tensor& weight = known_.at(convolution.inputs[1]);
    Shape per_channel = Shape::filled(weight.rank(), 1);
    per_channel[0] = weight.size(0);
    Tensor factors = scale;
    if (is_transposed(convolution)) {
      const auto groups = std::get<int64_t>(attribute(convolution, "groups"));
      per_channel[1] = weight.size(1);
      factors = scale.reshape({groups, 1, per_channel[1]})
                    .expand({groups, per_channel[0] / groups, per_channel[1]});
    }
    const Tensor product = weight.to(kFloat64) * factors.reshape(per_channel);
    return product.to(weight.dtype())
        .contiguous(weight.rank() == 4 ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous);
  }

  ValueId add_value(Value value) {
    const auto id = static_cast<ValueId>(graph_.values.size());
    value.root = id;
    graph_.values.push_back(value);
    return id;
  }

  ValueId add_constant(const Tensor& x) {
    const ValueId id = add_value({x.shape(), x.strides(), x.dtype(), x.device()});
    graph_.constants.push_back({id, x, "", false, true});
    known_.emplace(id, x);
    return id;
  }

  // What is left of a norm: the sum with `shift`, unless it is undefined, and with the residual,
  // and ReLU.
  void write_rest(const Node& norm, Node& last, const Tensor& shift) {
    const ValueId x = norm.inputs[0], y = norm.outputs[0];
    std::vector<Node> rest;
    if (shift.defined()) {
      Shape per_channel = Shape::filled(graph_.value(x).shape.rank(), 1);
      per_channel[1] = shift.numel();
      rest.push_back({new_op("add"), {x, add_constant(shift.reshape(per_channel))}});
    }
    if (norm.inputs[1] != kNone) rest.push_back({new_op("add"), {x, norm.inputs[1]}});
    if (std::get<bool>(attribute(norm, "relu"))) rest.push_back({new_op("relu"), {x}});
    if (rest.empty()) {  // the last node before it gives its result
      makers_[y] = makers_.at(x);
      last.outputs[0] = y;
      if (last.op.info().view) {
        for (Value& value : graph_.values) {
          if (value.root == y) value.root = graph_.value(x).root;
        }
      }
      return;
    }
    ValueId made = x;
    for (size_t i = 0; i < rest.size(); ++i) {
      rest[i].inputs[0] = made;
      made = i + 1 < rest.size() ? add_value(graph_.value(y)) : y;
      rest[i].outputs = {made};
      rest[i].place = norm.place;
      write(std::move(rest[i]));
    }
  }

  Graph& graph_;
  Uses uses_;
  std::map<ValueId, size_t> makers_;
  std::map<ValueId, Tensor> known_;  // constants that stay as they are, and views of them
};

}  // namespace

int64_t fold_batch_norms(Graph& graph) { return NormFolder(graph).run(); }

}  // namespace wick::graph
