#include "wick/onnx/module.h"

#include <algorithm>

#include "wick/onnx/detail/call.h"

namespace wick::onnx {

using detail::Call;
using detail::Program;
using detail::TensorPlace;
using detail::Value;

namespace {

constexpr size_t kMaxGroups = 16;  // that one name may lie in

template <class List>
size_t place_of(const List& list, const std::string& name) {
  return static_cast<size_t>(std::find(list.begin(), list.end(), name) - list.begin());
}

}  // namespace

bool TensorGroup::has_name(const std::string& name) const {
  return place_of(names_, name) < names_.size() ||
         place_of(group_names_, name) < group_names_.size();
}

// "layer1.conv.weight" is "weight" of the group "conv" of the group "layer1". A name that is not of
// such parts, or is taken, becomes one of this group, with _ for dots.
void TensorGroup::add_tensor(std::string name, const Tensor& value, bool is_trained,
                             TensorPlace& place) {
  const size_t dot = name.find('.');
  const std::string first = name.substr(0, dot);
  const bool nests = dot != std::string::npos && !first.empty() && dot + 1 < name.size() &&
                     place_of(names_, first) == names_.size() && place.groups.size() < kMaxGroups;
  if (nests) {
    const size_t at = place_of(group_names_, first);
    if (at == groups_.size()) {
      groups_.emplace_back(add(first, TensorGroup()));
      group_names_.push_back(first);
    }
    place.groups.push_back(at);
    groups_[at]->add_tensor(name.substr(dot + 1), value, is_trained, place);
    return;
  }
  std::replace(name.begin(), name.end(), '.', '_');
  if (name.empty()) name = "_";
  while (has_name(name)) name += "_";
  names_.push_back(name);
  place.is_buffer = !is_trained;
  place.index = is_trained ? parameters_.size() : buffers_.size();
  if (is_trained) {
    parameters_.emplace_back(add_parameter(name, value));
  } else {
    buffers_.emplace_back(add_buffer(name, value));
  }
}

const Tensor& TensorGroup::tensor_at(const TensorPlace& place) const {
  const TensorGroup* group = this;
  for (const size_t at : place.groups) group = &*group->groups_[at];
  if (place.is_buffer) return group->buffers_[place.index];
  return group->parameters_[place.index];
}

Module::Module(const std::shared_ptr<Program>& program) : program_(program) {
  for (detail::Initializer& initializer : program->initializers) {
    if (initializer.role == detail::Role::kConstant) continue;
    TensorPlace place;
    place.value = initializer.value;
    add_tensor(initializer.name, std::exchange(initializer.tensor, Tensor()),
               initializer.role == detail::Role::kParameter, place);
    places_.push_back(std::move(place));
  }
}

std::string Module::description() const {
  return concat("onnx::Module(", program_->nodes.size(), " nodes)");
}

const std::vector<Input>& Module::inputs() const { return program_->inputs; }
const std::vector<std::string>& Module::output_names() const { return program_->output_names; }

namespace {

// A module that was moved to another floating dtype takes inputs of that.
void check_input(const Tensor& x, const Input& want) {
  const bool has_dtype =
      x.defined() && (is_floating(want.dtype) ? is_floating(x.dtype()) : x.dtype() == want.dtype);
  WICK_CHECK(has_dtype, "onnx: input ", want.name, " has a wrong dtype: got ",
             x.defined() ? to_string(x.dtype()) : "no tensor", ", expected ", want.dtype);
  if (!want.has_shape) return;
  bool fits = static_cast<size_t>(x.rank()) == want.shape.size();
  for (size_t i = 1; fits && i < want.shape.size(); ++i) {
    fits = want.shape[i] < 0 || want.shape[i] == x.shape()[static_cast<int>(i)];
  }
  WICK_CHECK(fits, "onnx: input ", want.name, " has a wrong shape: got ", x.shape(), ", expected ",
             Shape(want.shape), " with -1 and the first size free");
}

// Runs a node on host values alone: in a trace its results are constants.
std::vector<Tensor> run_on_host(const detail::Node& node, Call& call) {
  const detail::HostScope scope;
  return node.function(call);
}

// The results of a node into `values`. An error names the node.
void run_node(const detail::Node& node, bool training, int64_t opset, Device device,
              std::vector<Value>& values) {
  std::vector<Value> inputs;
  bool on_host = true;
  for (const detail::ValueId id : node.inputs) {
    inputs.push_back(id == detail::kNone ? Value() : values[static_cast<size_t>(id)]);
    on_host = on_host && (id == detail::kNone || inputs.back().on_host);
  }
  if (node.op == "CastLike") on_host = inputs[0].on_host;  // of the other only the dtype counts
  const bool is_shape = node.op == "Shape" || node.op == "Size";
  Call call(node, std::move(inputs), training, opset, on_host ? kCpu : device);
  std::vector<Tensor> results = on_host || is_shape ? run_on_host(node, call) : node.function(call);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == detail::kNone) continue;
    Value& value = values[static_cast<size_t>(node.outputs[i])];
    if (i < results.size()) value = {std::move(results[i]), on_host || is_shape};
  }
}

[[noreturn]] void refuse(const detail::Node& node, const Error& error) {
  wick::detail::fail("onnx: node ", node.name, " (", node.op, "): ", error.what());
}

}  // namespace

std::vector<Tensor> Module::forward(const std::vector<Tensor>& inputs) {
  const Program& program = *program_;
  WICK_CHECK(inputs.size() == program.inputs.size(), "onnx: wrong number of inputs: got ",
             inputs.size(), ", expected ", program.inputs.size());
  std::vector<Value> values(program.num_values);
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_input(inputs[i], program.inputs[i]);
    values[static_cast<size_t>(program.input_values[i])] = {inputs[i], false};
  }
  for (const detail::Initializer& initializer : program.initializers) {
    values[static_cast<size_t>(initializer.value)] = {initializer.tensor, true};
  }
  for (const TensorPlace& place : places_) {
    values[static_cast<size_t>(place.value)] = {tensor_at(place), false};
  }
  const Device device = !inputs.empty()    ? inputs[0].device()
                        : !places_.empty() ? tensor_at(places_[0]).device()
                                           : kCpu;
  for (const detail::Node& node : program.nodes) {
    try {
      run_node(node, is_training(), program.opset, device, values);
    } catch (const OutOfMemory&) {
      throw;
    } catch (const DeviceError&) {
      throw;
    } catch (const Error& error) {
      refuse(node, error);
    }
    for (const detail::ValueId id : node.last_used) values[static_cast<size_t>(id)] = {};
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Value& value = values[static_cast<size_t>(program.outputs[i])];
    WICK_CHECK(value.tensor.defined(), "onnx: output ", program.output_names[i],
               " is a result of an op that Wick does not compute");
    results.push_back(value.on_host ? value.tensor.to(device) : value.tensor);
  }
  return results;
}

Tensor Module::forward(const Tensor& x) { return forward(std::vector<Tensor>{x})[0]; }

nn::Handle<Module> load(const std::string& path) {
  return nn::Handle<Module>(std::make_shared<Module>(detail::read_program(path)));
}

}  // namespace wick::onnx
