#include "wick/nn/module.h"

#include <cxxabi.h>

#include <cstdlib>
#include <typeinfo>
#include <unordered_set>

#include "wick/core/autograd.h"

namespace wick::nn {

Tensor Module::forward(const Tensor&) {
  detail::fail(description(), ": forward: takes other arguments than one tensor: got one tensor, ",
               "expected those of its own forward");
}

std::string Module::description() const {
  int status = 0;
  char* demangled = abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status);
  const std::string full = status == 0 ? demangled : typeid(*this).name();
  std::free(demangled);
  const size_t colon = full.rfind(':');
  return colon == std::string::npos ? full : full.substr(colon + 1);
}

void Module::check_name(const std::string& name) const {
  WICK_CHECK(!name.empty() && name.find('.') == std::string::npos,
             "module: a name must not be empty or contain a dot: got \"", name, "\"");
  const auto taken = [&](const auto& list) {
    for (const auto& entry : list) {
      if (entry.first == name) return true;
    }
    return false;
  };
  WICK_CHECK(!taken(parameters_) && !taken(buffers_) && !taken(children_),
             "module: name used twice: got \"", name, "\"");
}

Tensor Module::add_parameter(const std::string& name, const Tensor& value) {
  check_name(name);
  if (value.defined()) value.set_requires_grad();
  parameters_.emplace_back(name, value);
  return value;
}

Tensor Module::add_buffer(const std::string& name, const Tensor& value) {
  check_name(name);
  buffers_.emplace_back(name, value);
  return value;
}

void Module::add_child(const std::string& name, std::shared_ptr<Module> module) {
  check_name(name);
  WICK_CHECK(module != nullptr, "module: child \"", name, "\" is null");
  children_.emplace_back(name, std::move(module));
}

// All names of the tensors in `list` of this module and all below it.
void Module::append(NamedTensors Module::*list, const std::string& prefix,
                    NamedTensors& all) const {
  for (const auto& [name, tensor] : this->*list) {
    if (tensor.defined()) all.emplace_back(prefix + name, tensor);
  }
  for (const auto& [name, child] : children_) child->append(list, prefix + name + ".", all);
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
  std::vector<Tensor> all;
  for (auto& [name, tensor] : recurse ? named_parameters() : first_names(parameters_)) {
    if (tensor.defined()) all.push_back(std::move(tensor));
  }
  return all;
}

void Module::apply(const std::function<void(const std::string&, Module&)>& visit,
                   const std::string& path) {
  visit(path, *this);
  for (const auto& [name, child] : children_) {
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
  const NoGrad no_grad;
  for (const Tensor& parameter : parameters()) {
    if (!parameter.grad().defined()) continue;
    if (set_to_none) {
      parameter.set_grad({});
    } else {
      parameter.grad().zero_();
    }
  }
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

void Module::load_state_dict(const TensorMap& state, bool strict) {
  const TensorMap own = state_dict();
  size_t matched = 0;
  for (const auto& [name, tensor] : own) {
    const auto found = state.find(name);
    if (found == state.end()) {
      WICK_CHECK(!strict, "load_state_dict: missing tensor: expected \"", name, "\" of shape ",
                 tensor.shape());
      continue;
    }
    ++matched;
    WICK_CHECK(found->second.shape() == tensor.shape(), "load_state_dict: shape of \"", name,
               "\" differs: got ", found->second.shape(), ", expected ", tensor.shape());
  }
  if (strict && matched != state.size()) {
    for (const auto& [name, tensor] : state) {
      WICK_CHECK(own.contains(name), "load_state_dict: unknown tensor: got \"", name, "\"");
    }
  }
  const NoGrad no_grad;
  for (const auto& [name, tensor] : own) {
    const auto found = state.find(name);
    if (found != state.end()) tensor.copy_(found->second);
  }
}

}  // namespace wick::nn
