#include "wick/onnx/save.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "wick/core/core.h"
#include "wick/core/file.h"
#include "wick/onnx/detail/tensors.h"
#include "wick/onnx/detail/writer.h"

namespace wick::onnx {

namespace detail {

namespace {

void write_attribute(const Written& attribute, ::onnx::AttributeProto& proto) {
  using ::onnx::AttributeProto;
  proto.set_name(attribute.name);
  if (const auto* number = std::get_if<int64_t>(&attribute.value)) {
    proto.set_type(AttributeProto::INT);
    proto.set_i(*number);
  } else if (const auto* real = std::get_if<double>(&attribute.value)) {
    proto.set_type(AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(*real));
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    proto.set_type(AttributeProto::STRING);
    proto.set_s(*text);
  } else {
    proto.set_type(AttributeProto::INTS);
    for (const int64_t i : std::get<std::vector<int64_t>>(attribute.value)) proto.add_ints(i);
  }
}

std::string& name_of(std::vector<std::string>& names, graph::ValueId id) {
  return names[static_cast<size_t>(id)];
}

}  // namespace

std::string Emit::in(size_t i) const { return has(i) ? name_of(names_, node_.inputs[i]) : ""; }
const graph::Value& Emit::value(size_t i) const { return graph_.value(node_.inputs[i]); }
const graph::Value& Emit::result(size_t i) const { return graph_.value(node_.outputs[i]); }

template <class T>
T Emit::attribute(const char* name) const {
  for (const NamedAttribute& attribute : node_.op.attributes()) {
    const T* value = std::get_if<T>(&attribute.value);
    if (std::string_view(attribute.name) == name && value != nullptr) return *value;
  }
  wick::detail::fail(op(), " has no attribute ", name, " of the kind that is expected");
}

int64_t Emit::integer(const char* name) const { return attribute<int64_t>(name); }
bool Emit::truth(const char* name) const { return attribute<bool>(name); }
std::vector<int64_t> Emit::list(const char* name) const {
  return attribute<std::vector<int64_t>>(name);
}

double Emit::real(const char* name) const {
  for (const NamedAttribute& attribute : node_.op.attributes()) {
    if (std::string_view(attribute.name) != name) continue;
    if (const auto* number = std::get_if<int64_t>(&attribute.value)) {
      return static_cast<double>(*number);
    }
  }
  return attribute<double>(name);
}

::onnx::NodeProto& Emit::add_node(const char* op, const std::vector<std::string>& inputs,
                                  const std::vector<Written>& attributes) {
  ::onnx::NodeProto& proto = *out_.add_node();
  proto.set_op_type(op);
  proto.set_name(concat(op, "_", out_.node_size() - 1));
  size_t count = inputs.size();
  while (count > 0 && inputs[count - 1].empty()) --count;
  for (size_t i = 0; i < count; ++i) proto.add_input(inputs[i]);
  for (const Written& attribute : attributes) write_attribute(attribute, *proto.add_attribute());
  return proto;
}

std::string Emit::add(const char* op, const std::vector<std::string>& inputs,
                      const std::vector<Written>& attributes) {
  ::onnx::NodeProto& proto = add_node(op, inputs, attributes);
  proto.add_output("wick_" + proto.name());
  return proto.output(0);
}

void Emit::finish(const char* op, const std::vector<std::string>& inputs,
                  const std::vector<Written>& attributes) {
  ::onnx::NodeProto& proto = add_node(op, inputs, attributes);
  for (const graph::ValueId id : node_.outputs) {
    proto.add_output(id == graph::kNone ? "" : name_of(names_, id));
  }
  while (proto.output_size() > 1 && proto.output(proto.output_size() - 1).empty()) {
    proto.mutable_output()->RemoveLast();
  }
}

void Emit::finish_one(size_t i, const char* op, const std::vector<std::string>& inputs,
                      const std::vector<Written>& attributes) {
  if (node_.outputs[i] == graph::kNone) return;
  add_node(op, inputs, attributes).add_output(name_of(names_, node_.outputs[i]));
}

std::vector<std::string> Emit::add_several(const char* op, const std::vector<std::string>& inputs,
                                           const std::vector<Written>& attributes, size_t count) {
  ::onnx::NodeProto& proto = add_node(op, inputs, attributes);
  for (size_t i = 0; i < count; ++i) proto.add_output(concat("wick_", proto.name(), "_", i));
  return {proto.output().begin(), proto.output().end()};
}

std::string Emit::as(size_t i, Dtype dtype) {
  if (value(i).dtype == dtype) return in(i);
  return add("Cast", {in(i)}, {{"to", int64_t{number_of_dtype(dtype)}}});
}

std::string Emit::constant(const Tensor& x) {
  ::onnx::TensorProto& proto = *out_.add_initializer();
  write_tensor(x, concat("wick_constant_", out_.initializer_size() - 1), proto);
  return proto.name();
}

namespace {

constexpr int64_t kOpset = 17, kIr = 8;

void declare(const std::string& name, const graph::Value& value, ::onnx::ValueInfoProto& proto) {
  proto.set_name(name);
  auto& type = *proto.mutable_type()->mutable_tensor_type();
  type.set_elem_type(number_of_dtype(value.dtype));
  type.mutable_shape();
  for (const int64_t size : value.shape) type.mutable_shape()->add_dim()->set_dim_value(size);
}

const WriterEntry* find_writer(std::string_view name) {
  for (const auto& table : {elementwise_writers(), arranging_writers(), network_writers()}) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const WriterEntry& entry) { return entry.name == name; });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

class Writer {
 public:
  explicit Writer(const graph::Graph& graph) : graph_(graph), names_(graph.values.size()) {}

  void write(::onnx::GraphProto& out) {
    out.set_name("wick");
    for (size_t i = 0; i < names_.size(); ++i) names_[i] = concat("wick_", i);
    write_constants(out);
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      name_of(names_, graph_.inputs[i]) = concat("input", i);
      declare(concat("input", i), graph_.value(graph_.inputs[i]), *out.add_input());
    }
    for (const graph::Node& node : graph_.nodes) write_node(node, out);
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const graph::ValueId id = graph_.outputs[i];
      WICK_CHECK(id != graph::kNone, "onnx: result ", i, " of the graph is undefined");
      ::onnx::NodeProto& proto = *out.add_node();  // a result may be an input, or come twice
      proto.set_op_type("Identity");
      proto.set_name(concat("Output_", i));
      proto.add_input(name_of(names_, id));
      proto.add_output(concat("output", i));
      declare(concat("output", i), graph_.value(id), *out.add_output());
    }
  }

 private:
  // By the names of the trace, as far as they are free.
  void write_constants(::onnx::GraphProto& out) {
    std::set<std::string> taken;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) taken.insert(concat("input", i));
    for (size_t i = 0; i < graph_.outputs.size(); ++i) taken.insert(concat("output", i));
    for (const graph::Constant& constant : graph_.constants) {
      std::string& name = name_of(names_, constant.value);
      const bool is_free = !constant.name.empty() && !constant.name.starts_with("wick_");
      if (is_free && taken.insert(constant.name).second) name = constant.name;
      write_tensor(constant.tensor, name, *out.add_initializer());
    }
  }

  void write_node(const graph::Node& node, ::onnx::GraphProto& out) {
    for (const graph::Node& part : node.body) write_node(part, out);
    if (!node.body.empty()) return;
    const char* op = node.op.info().name;
    if (std::string_view(op) == "empty") return;  // memory, until another op fills it
    const bool fills = node.op.info().overwrites && !node.inputs.empty() &&
                       graph_.value(node.inputs[0]).root == node.inputs[0];
    WICK_CHECK(node.op.info().mutates == 0 || fills, "onnx: the op ", op,
               " changes a tensor in place: expected a trace of inference");
    WICK_CHECK(node.draw < 0, "onnx: the op ", op, " draws random numbers, expected none");
    const WriterEntry* entry = find_writer(op);
    WICK_CHECK(entry != nullptr, "onnx: the op ", op, " has no form in ONNX that Wick writes");
    Emit emit(graph_, node, names_, entry->onnx, out);
    try {
      entry->write(emit);
    } catch (const Error& error) {
      wick::detail::fail("onnx: the op ", op, ": ", error.what());
    }
    if (fills) name_of(names_, node.inputs[0]) = name_of(names_, node.outputs[0]);
  }

  const graph::Graph& graph_;
  std::vector<std::string> names_;
};

}  // namespace

}  // namespace detail

void save(const graph::Graph& graph, const std::string& path) {
  check(graph);
  ::onnx::ModelProto model;
  model.set_ir_version(detail::kIr);
  model.set_producer_name("wick");
  ::onnx::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(detail::kOpset);
  detail::Writer(graph).write(*model.mutable_graph());
  WICK_CHECK(model.ByteSizeLong() < size_t{1} << 31, "onnx: ", path,
             ": the model is too large for one file: got ", model.ByteSizeLong(),
             " bytes, expected less than 2 GiB");
  write_file(path, model.SerializeAsString());
}

}  // namespace wick::onnx
