#include <onnx/onnx_pb.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

#include "wick/core/core.h"
#include "wick/core/file.h"
#include "wick/onnx/detail/call.h"
#include "wick/onnx/detail/tensors.h"

namespace wick::onnx::detail {

namespace {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::ValueInfoProto;

constexpr int64_t kMinOpset = 13, kMaxOpset = 21;
constexpr int64_t kMinIr = 3, kMaxIr = 13;

ModelProto parse(const std::string& path) {
  const MappedFile file(path);
  WICK_CHECK(file.size() < uint64_t{1} << 31, "too large: got ", file.size(),
             " bytes, expected less than 2 GiB, with large tensors in a file beside the model");
  ModelProto model;
  const bool is_whole = model.ParseFromArray(file.data(), static_cast<int>(file.size()));
  file.check();
  WICK_CHECK(is_whole && model.has_graph(), "no ONNX model: got ", file.size(),
             " bytes that are truncated, or of another format");
  return model;
}

int64_t opset_of(const ModelProto& model) {
  WICK_CHECK(model.ir_version() >= kMinIr && model.ir_version() <= kMaxIr,
             "of another version of the format: got ", model.ir_version(), ", expected ", kMinIr,
             " to ", kMaxIr);
  int64_t opset = 0;
  for (const auto& entry : model.opset_import()) {
    if (entry.domain().empty() || entry.domain() == "ai.onnx") opset = entry.version();
  }
  WICK_CHECK(opset >= kMinOpset && opset <= kMaxOpset, "of another opset: got ", opset,
             ", expected ", kMinOpset, " to ", kMaxOpset);
  return opset;
}

// Makes a Program of a parsed model.
class Reader {
 public:
  explicit Reader(const std::string& path) : program_(std::make_shared<Program>()) {
    program_->path = path;
    folder_ = std::filesystem::path(path).parent_path().string();
  }

  std::shared_ptr<Program> read() {
    const ModelProto model = parse(program_->path);
    program_->opset = opset_of(model);
    const GraphProto& graph = model.graph();
    WICK_CHECK(graph.sparse_initializer_size() == 0, "a sparse initializer, expected dense ones");
    for (const auto& tensor : graph.initializer()) {
      const ValueId id = make(tensor.name(), "an initializer");
      program_->initializers.push_back({tensor.name(), id, read_tensor(tensor, folder_)});
    }
    for (const ValueInfoProto& input : graph.input()) read_input(input);
    note_makers(graph);
    for (const NodeProto& node : graph.node()) read_node(node);
    for (const ValueInfoProto& output : graph.output()) {
      program_->outputs.push_back(find(output.name(), "the model's result"));
      program_->output_names.push_back(output.name());
    }
    WICK_CHECK(!program_->outputs.empty(), "no outputs, expected at least one");
    program_->num_values = ids_.size();
    set_roles();
    set_last_used();
    return program_;
  }

 private:
  ValueId make(const std::string& name, std::string_view what) {
    const auto id = static_cast<ValueId>(ids_.size());
    WICK_CHECK(ids_.emplace(name, id).second, what, " has a name that is taken: got ", name);
    return id;
  }

  ValueId find(const std::string& name, std::string_view reader) const {
    const auto found = ids_.find(name);
    if (found != ids_.end()) return found->second;
    const bool is_later = makers_.contains(name);
    wick::detail::fail(reader, " reads ", name,
                       is_later ? ", which is made later: the graph has a cycle or is not in order"
                                : ", which nothing makes");
  }

  void read_input(const ValueInfoProto& proto) {
    if (ids_.contains(proto.name())) return;  // an initializer with a default in older files
    WICK_CHECK(proto.type().has_tensor_type(), "input ", proto.name(), " is no tensor");
    const auto& type = proto.type().tensor_type();
    Input input{proto.name(), dtype_of_number(type.elem_type()), type.has_shape()};
    WICK_CHECK(type.shape().dim_size() <= kMaxRank, "input ", proto.name(),
               " has too many axes: got ", type.shape().dim_size());
    for (const auto& size : type.shape().dim()) {
      input.shape.push_back(size.has_dim_value() ? size.dim_value() : -1);
    }
    program_->input_values.push_back(make(proto.name(), "an input"));
    program_->inputs.push_back(std::move(input));
  }

  void note_makers(const GraphProto& graph) {
    for (const NodeProto& node : graph.node()) {
      for (const std::string& output : node.output()) makers_.insert(output);
    }
  }

  Attribute read_attribute(const AttributeProto& proto) const {
    switch (proto.type()) {
      case AttributeProto::INT: return proto.i();
      case AttributeProto::FLOAT: return proto.f();
      case AttributeProto::STRING: return proto.s();
      case AttributeProto::INTS:
        return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
      case AttributeProto::FLOATS:
        return std::vector<float>(proto.floats().begin(), proto.floats().end());
      case AttributeProto::STRINGS:
        return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
      case AttributeProto::TENSOR: return read_tensor(proto.t(), folder_);
      default:
        wick::detail::fail("attribute ", proto.name(), " is of type ",
                           static_cast<int>(proto.type()),
                           ", expected a number, a text, a list or a tensor");
    }
  }

  void read_node(const NodeProto& proto) {
    Node node;
    node.op = proto.op_type();
    node.name = proto.name().empty() ? concat("number ", num_nodes_) : proto.name();
    ++num_nodes_;
    const bool is_standard = proto.domain().empty() || proto.domain() == "ai.onnx";
    const OpEntry* entry = is_standard ? find_op(node.op) : nullptr;
    WICK_CHECK(entry != nullptr, "node ", node.name, ": unknown op: got ", node.op,
               is_standard ? "" : concat(" of domain ", proto.domain()));
    try {
      read_contents(proto, *entry, node);
    } catch (const Error& error) {
      wick::detail::fail("node ", node.name, " (", node.op, "): ", error.what());
    }
  }

  void read_contents(const NodeProto& proto, const OpEntry& entry, Node& node) {
    const auto count = static_cast<size_t>(proto.input_size());
    WICK_CHECK(count >= entry.min_inputs && count <= entry.max_inputs,
               "wrong number of inputs: got ", count, ", expected ", entry.min_inputs,
               entry.max_inputs == kAny ? " or more" : concat(" to ", entry.max_inputs));
    node.function = entry.function;
    for (const auto& attribute : proto.attribute()) {
      node.attributes.emplace(attribute.name(), read_attribute(attribute));
    }
    for (const std::string& input : proto.input()) {
      node.inputs.push_back(input.empty() ? kNone : find(input, "the node"));
    }
    for (const std::string& output : proto.output()) {
      node.outputs.push_back(output.empty() ? kNone : make(output, "a result"));
    }
    if (node.op == "Constant") return keep_constant(node);
    if (node.op == "SplitToSequence") return keep_sequence(std::move(node));
    if (node.op == "SequenceAt") read_from_sequence(node);
    program_->nodes.push_back(std::move(node));
  }

  // Wick has no sequences: each part is split from the tensor where it is read.
  void keep_sequence(Node node) {
    WICK_CHECK(node.outputs.size() == 1, "wrong number of results: got ", node.outputs.size());
    const ValueId sequence = node.outputs[0];
    sequences_.emplace(sequence, std::move(node));
  }
  void read_from_sequence(Node& node) const {
    const auto found = sequences_.find(node.inputs[0]);
    WICK_CHECK(found != sequences_.end(), "input 0 is no result of SplitToSequence");
    const std::vector<ValueId>& split = found->second.inputs;
    node.inputs = {split[0], split.size() > 1 ? split[1] : kNone, node.inputs[1]};
    node.attributes = found->second.attributes;
  }

  // The result of a node without inputs is known from the start.
  void keep_constant(const Node& node) {
    if (node.outputs.size() != 1 || node.outputs[0] == kNone) return;
    Call call(node, {}, false, program_->opset, kCpu);
    program_->initializers.push_back(
        {node.name, node.outputs[0], node.function(call)[0], Role::kConstant});
  }

  // What an initializer is, from how nodes use it.
  void set_roles() {
    std::vector<bool> is_statistic(program_->num_values), is_setting(program_->num_values);
    for (const Node& node : program_->nodes) {
      const size_t first_setting = find_op(node.op)->first_setting;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == kNone) continue;
        const auto id = static_cast<size_t>(node.inputs[i]);
        if (node.op == "BatchNormalization" && i >= 3) is_statistic[id] = true;
        if (i >= first_setting) is_setting[id] = true;
      }
    }
    for (Initializer& initializer : program_->initializers) {
      const auto id = static_cast<size_t>(initializer.value);
      const Tensor& x = initializer.tensor;
      const bool is_constant = initializer.role == Role::kConstant || !is_floating(x.dtype()) ||
                               x.rank() == 0 || is_setting[id];
      initializer.role = is_constant        ? Role::kConstant
                         : is_statistic[id] ? Role::kBuffer
                                            : Role::kParameter;
    }
  }

  void set_last_used() {
    std::vector<bool> is_kept(program_->num_values);
    for (const ValueId id : program_->outputs) is_kept[static_cast<size_t>(id)] = true;
    for (size_t i = program_->nodes.size(); i > 0; --i) {
      Node& node = program_->nodes[i - 1];
      for (const auto* list : {&node.inputs, &node.outputs}) {
        for (const ValueId id : *list) {
          if (id == kNone || is_kept[static_cast<size_t>(id)]) continue;
          is_kept[static_cast<size_t>(id)] = true;
          node.last_used.push_back(id);
        }
      }
    }
  }

  std::shared_ptr<Program> program_;
  std::string folder_;
  size_t num_nodes_ = 0;
  std::unordered_map<std::string, ValueId> ids_;
  std::unordered_map<ValueId, Node> sequences_;
  std::unordered_set<std::string> makers_;
};

}  // namespace

std::shared_ptr<Program> read_program(const std::string& path) {
  try {
    return Reader(path).read();
  } catch (const Error& error) {
    wick::detail::fail("onnx: ", path, ": ", error.what());
  }
}

}  // namespace wick::onnx::detail
