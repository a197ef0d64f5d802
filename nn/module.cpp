#include "wick/nn/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <typeinfo>
#include <unordered_set>

#include "wick/core/autograd.h"
#include "wick/core/sparse_rows.h"

namespace wick::nn {

Tensor Module::forward(const Tensor&) {
  detail::fail(description(), ": there is no forward of one tensor: got one, expected a class ",
               "that overrides forward(const Tensor&), or a call of another forward");
}

namespace {
std::string class_name(const std::type_info& type) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  const std::string full = status == 0 ? demangled : type.name();
  std::free(demangled);
  const size_t colon = full.rfind(':');
  return colon == std::string::npos ? full : full.substr(colon + 1);
}
}  // namespace

std::string Module::description() const { return class_name(typeid(*this)); }

namespace {

using places::Place;

// Members that are moved next take over the places of the module's.
template <class List>
void mark_moving(const List& places) noexcept {
  for (const auto& entry : places) entry.second->is_moving = true;
}

template <class List>
List copy_of(const List& places) {
  List copy;
  for (const auto& [name, place] : places) copy.emplace_back(name, places::copy_place(*place));
  return copy;
}

template <class List>
std::string names_of(const List& places) {
  std::string names;
  for (const auto& entry : places) names += (names.empty() ? "" : ", ") + entry.first;
  return names.empty() ? "those that add() gave it, of which there are none" : "one of " + names;
}

template <class List>
bool has(const List& places, const std::string& name) {
  return std::any_of(places.begin(), places.end(),
                     [&](const auto& entry) { return entry.first == name; });
}

}  // namespace

Module::Module(Module&& other) noexcept { *this = std::move(other); }

Module& Module::operator=(Module&& other) noexcept {
  parameters_ = std::move(other.parameters_);
  buffers_ = std::move(other.buffers_);
  children_ = std::move(other.children_);
  copy_ = other.copy_;
  training_ = other.training_;
  mark_moving(parameters_);
  mark_moving(buffers_);
  mark_moving(children_);
  return *this;
}

Module::Module(const Module& other)
    : parameters_(copy_of(other.parameters_)),
      buffers_(copy_of(other.buffers_)),
      children_(copy_of(other.children_)),
      copy_(other.copy_),
      training_(other.training_) {}

template <class Value>
const Value& Module::value_of(const std::string& name, Place<Value>& place) const {
  if (place.is_moving) place.is_moving = false;
  WICK_CHECK(!place.is_lost, "module: ", description(), ": \"", name,
             "\" has lost its member: got copies of what registering it gave, expected that itself "
             "to be the member");
  return place.value();
}

void Module::check_name(const std::string& name) const {
  WICK_CHECK(!name.empty() && name.find('.') == std::string::npos,
             "module: a name must not be empty or contain a dot: got \"", name, "\"");
  WICK_CHECK(!has(parameters_, name) && !has(buffers_, name) && !has(children_, name),
             "module: name used twice: got \"", name, "\"");
}

bool Module::is_at_or_above(const Module& module) const {
  if (this == &module) return true;
  return std::any_of(children_.begin(), children_.end(), [&](const auto& entry) {
    const std::shared_ptr<Module>& child = entry.second->value();
    return child != nullptr && child->is_at_or_above(module);
  });
}

void Module::check_no_cycle(const std::string& name, const Module& child) const {
  WICK_CHECK(!child.is_at_or_above(*this), "module: child \"", name,
             "\" would contain itself: got ", &child == this ? "the module itself" : "a module",
             &child == this ? "" : " that contains the parent",
             ", expected one without the parent");
}

Registered<Parameter, Tensor> Module::add_parameter(const std::string& name, const Tensor& value) {
  if (value.defined()) value.set_requires_grad();
  return add_parameter(name, Parameter(value, value.defined()));
}

Registered<Parameter, Tensor> Module::add_parameter(const std::string& name,
                                                    const Parameter& value) {
  check_name(name);
  const auto place = std::make_shared<Place<Tensor>>();
  place->kept = value;
  parameters_.emplace_back(name, place);
  return Registered<Parameter, Tensor>(place);
}

Registered<Buffer, Tensor> Module::add_buffer(const std::string& name, const Tensor& value) {
  check_name(name);
  const auto place = std::make_shared<Place<Tensor>>();
  place->kept = value;
  buffers_.emplace_back(name, place);
  return Registered<Buffer, Tensor>(place);
}

std::shared_ptr<places::ChildPlace> Module::add_child(const std::string& name,
                                                      std::shared_ptr<Module> module) {
  check_name(name);
  WICK_CHECK(module != nullptr, "module: child \"", name, "\" is null");
  check_no_cycle(name, *module);
  const auto place = std::make_shared<places::ChildPlace>();
  place->kept = std::move(module);
  children_.emplace_back(name, place);
  return place;
}

std::vector<std::pair<std::string, std::shared_ptr<Module>>> Module::children() const {
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> all;
  all.reserve(children_.size());
  for (const auto& [name, place] : children_) {
    const std::shared_ptr<Module>& child = value_of(name, *place);
    if (child != nullptr) all.emplace_back(name, child);
  }
  return all;
}

Handle<Module> Module::replace(const std::string& path, const Handle<Module>& module) {
  const size_t dot = path.find('.');
  const std::string name = path.substr(0, dot);
  const auto entry = std::find_if(children_.begin(), children_.end(),
                                  [&](const auto& child) { return child.first == name; });
  WICK_CHECK(entry != children_.end(), "replace: ", description(), ": no such child: got \"", name,
             "\", expected ", names_of(children_));
  places::ChildPlace& place = *entry->second;
  const std::shared_ptr<Module> before = value_of(name, place);
  if (dot != std::string::npos) {
    WICK_CHECK(before != nullptr, "replace: ", description(), ": child \"", name, "\" is null");
    return before->replace(path.substr(dot + 1), module);
  }
  const std::shared_ptr<Module> after = module.shared();
  WICK_CHECK(after != nullptr, "replace: child \"", name, "\": got a null module");
  check_no_cycle(name, *after);
  if (place.member != nullptr) {
    const std::type_info* expected = place.member->expects(after);
    WICK_CHECK(expected == nullptr, "replace: child \"", name, "\": got ", after->description(),
               ", expected a ", class_name(*expected), ", which its Handle is of");
  }
  place.set(after);
  return Handle<Module>(before);
}

// All names of the tensors in `list` of this module and all below it.
void Module::append(Places<Tensor> Module::*list, const std::string& prefix,
                    NamedTensors& all) const {
  for (const auto& [name, place] : this->*list) {
    const Tensor& tensor = value_of(name, *place);
    if (tensor.defined()) all.emplace_back(prefix + name, tensor);
  }
  for (const auto& [name, child] : children()) child->append(list, prefix + name + ".", all);
}

namespace {
NamedTensors first_names(NamedTensors all) {
  std::unordered_set<const TensorImpl*> seen;
  std::erase_if(all, [&](const auto& entry) { return !seen.insert(entry.second.impl()).second; });
  return all;
}
}  // namespace

NamedTensors Module::named_parameters(const std::string& prefix) const {
  NamedTensors all;
  append(&Module::parameters_, prefix, all);
  return first_names(std::move(all));
}

NamedTensors Module::named_buffers(const std::string& prefix) const {
  NamedTensors all;
  append(&Module::buffers_, prefix, all);
  return first_names(std::move(all));
}

std::vector<Tensor> Module::parameters(bool recurse) const {
  NamedTensors own;
  if (!recurse) {
    for (const auto& [name, place] : parameters_) {
      const Tensor& tensor = value_of(name, *place);
      if (tensor.defined()) own.emplace_back(name, tensor);
    }
  }
  std::vector<Tensor> all;
  for (auto& entry : recurse ? named_parameters() : first_names(std::move(own))) {
    all.push_back(std::move(entry.second));
  }
  return all;
}

void Module::apply(const std::function<void(const std::string&, Module&)>& visit,
                   const std::string& path) {
  visit(path, *this);
  for (const auto& [name, child] : children()) {
    child->apply(visit, path.empty() ? name : path + "." + name);
  }
}

Module& Module::train(bool on) {
  apply([on](const std::string&, Module& module) { module.training_ = on; });
  return *this;
}

void Module::for_each_tensor(const std::function<void(const Tensor&)>& visit) const {
  for (const auto& entry : named_parameters()) visit(entry.second);
  for (const auto& entry : named_buffers()) visit(entry.second);
}

namespace {
// Gives `tensor` other memory, so that every handle to it sees the change.
void replace_memory(const Tensor& tensor, const Tensor& with) {
  TensorImpl& impl = *tensor.impl();
  const bool requires_grad = tensor.requires_grad();
  const Tensor grad = tensor.grad();
  tensor.set_requires_grad(false);
  impl.autograd.reset();  // which knows the dtype and the device
  impl.storage = with.impl()->storage;
  impl.offset = with.impl()->offset;
  impl.strides = with.strides();
  impl.dtype = with.dtype();
  if (requires_grad) tensor.set_requires_grad();
  if (grad.defined()) tensor.set_grad(grad.to(with.dtype()).to(with.device()));
}
}  // namespace

Module& Module::to(Device device) {
  const NoGrad no_grad;
  for_each_tensor([&](const Tensor& tensor) {
    if (!(tensor.device() == device)) replace_memory(tensor, tensor.to(device));
  });
  return *this;
}

Module& Module::to(Dtype dtype) {
  WICK_CHECK(is_floating(dtype), "module: to: needs a floating dtype: got ", to_string(dtype));
  const NoGrad no_grad;
  for_each_tensor([&](const Tensor& tensor) {
    if (is_floating(tensor.dtype()) && tensor.dtype() != dtype) {
      replace_memory(tensor, tensor.to(dtype));
    }
  });
  return *this;
}

void Module::zero_grad(bool set_to_none) {
  for (const Tensor& parameter : parameters()) zero_gradient(parameter, set_to_none);
}

Module& Module::requires_grad_(bool on) {
  for (const Tensor& parameter : parameters()) parameter.set_requires_grad(on);
  return *this;
}

TensorMap Module::state_dict() const {
  NamedTensors parameters, buffers;
  append(&Module::parameters_, "", parameters);
  append(&Module::buffers_, "", buffers);
  TensorMap state;
  for (const auto& [name, tensor] : parameters) state[name] = tensor.detach();
  for (const auto& [name, tensor] : buffers) state[name] = tensor;
  return state;
}

namespace {

// "2 missing: "a", "b"": the first of many.
std::string listed(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  constexpr size_t kMost = 20;
  std::string text = concat("\n  ", names.size(), " ", what, ": ");
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  if (names.size() > kMost) text += concat(", and ", names.size() - kMost, " more");
  return text;
}

}  // namespace

IncompatibleKeys Module::load_state_dict(const TensorMap& state, bool strict) {
  const TensorMap own = state_dict();
  IncompatibleKeys keys;
  std::vector<std::string> differ;
  for (const auto& [name, tensor] : own) {
    const auto found = state.find(name);
    if (found == state.end()) {
      keys.missing_keys.push_back(name);
    } else if (!(found->second.shape() == tensor.shape())) {
      differ.push_back(
          concat(name, " (got ", found->second.shape(), ", expected ", tensor.shape(), ")"));
    }
  }
  for (const auto& entry : state) {
    if (!own.contains(entry.first)) keys.unexpected_keys.push_back(entry.first);
  }
  const bool fits = keys.missing_keys.empty() && keys.unexpected_keys.empty();
  WICK_CHECK(differ.empty() && (fits || !strict), "load_state_dict: the state does not fit ",
             description(), ":", listed("missing", keys.missing_keys),
             listed("unexpected", keys.unexpected_keys), listed("of another shape", differ));
  const NoGrad no_grad;
  for (const auto& [name, tensor] : own) {
    const auto found = state.find(name);
    if (found != state.end()) tensor.copy_(found->second);
  }
  return keys;
}

}  // namespace wick::nn
