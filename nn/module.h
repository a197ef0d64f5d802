#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "wick/core/serialize.h"
#include "wick/core/tensor.h"
#include "wick/nn/member.h"

namespace wick::nn {

/// Tensors by dotted name, in the order of registration: "layer1.0.conv1.weight".
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// What load_state_dict found no partner for: names of the module's own that the state lacks, and
/// of the state that the module lacks.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;
  std::vector<std::string> unexpected_keys;
};

/// A part of a network: named parameters, buffers and child modules, and how they compute.
/// Derive from it, register what it owns in the constructor, and define forward:
///
///   struct Net : nn::Module {
///     nn::Handle<nn::Linear> fc = add("fc", nn::Linear(784, 10));
///     nn::Parameter scale = add_parameter("scale", ones({10}));
///     Tensor forward(const Tensor& x) override { return fc(x.flatten(1)) * scale; }
///   };
///
/// A module is moved, shared by a Handle, or cloned by nn::clone(). Its Handles, Parameters and
/// Buffers are the module's own: what is assigned to them it has (docs/modules.md).
class Module {
 public:
  Module() = default;
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  /// The computation on one input. Modules that need more have a forward of their own instead.
  virtual Tensor forward(const Tensor& x);
  /// "Linear(in_features=784, out_features=10)": how summaries and errors name it; the name of the
  /// class where it is not overridden.
  virtual std::string description() const;

  /// Calls forward, seen by summaries.
  Tensor operator()(const Tensor& x) { return call(x); }
  /// The same by a name.
  Tensor call(const Tensor& x) {
    ForwardScope scope(*this);
    return scope.made(forward(x));
  }

  /// Trainable tensors of this module and, unless `recurse` is false, of all below it. As in
  /// named_parameters() and named_buffers(), one that has several names (tied weights, a module
  /// registered twice) is there once, under the first of them.
  std::vector<Tensor> parameters(bool recurse = true) const;
  NamedTensors named_parameters(const std::string& prefix = "") const;
  NamedTensors named_buffers(const std::string& prefix = "") const;
  /// Children of this module, by name.
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children() const;
  /// Calls `visit(path, module)` for this module and all below it, parents first.
  void apply(const std::function<void(const std::string& path, Module& module)>& visit,
             const std::string& path = "");

  /// Puts `module` where the child or grandchild `path` is ("head", "layers.0.norm") and returns
  /// what was there. The Handle that add() gave calls it from then on. Error if there is no such
  /// child, or the Handle is of a class that the module is not of.
  template <std::derived_from<Module> M>
  Handle<Module> replace(const std::string& path, M&& module) {
    return replace(path, Handle<M>(std::make_shared<M>(std::move(module))));
  }
  Handle<Module> replace(const std::string& path, const Handle<Module>& module);

  /// Switches dropout and batch normalisation between training and evaluation.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  /// Moves all parameters, with their gradients, and buffers in place: optimizers made before see
  /// the change. Hooks of the parameters are lost. A dtype applies to floating tensors only.
  Module& to(Device device);
  Module& to(Dtype dtype);
  /// Forgets gradients, or sets them to zero.
  void zero_grad(bool set_to_none = true);
  /// Makes all parameters take part in backward, or none.
  Module& requires_grad_(bool on = true);

  /// Parameters and buffers by each of their names; they share memory with the module. What
  /// save_safetensors takes: `save_safetensors(path, net.state_dict())`.
  TensorMap state_dict() const;
  /// Copies `state`, as state_dict or load_safetensors give it, into the parameters and buffers,
  /// converted to their dtypes and devices. Every name must be there, and no other, unless `strict`
  /// is false: then it returns those that are not. Shapes must be the same. Error, which names all
  /// that does not fit, and nothing changed.
  IncompatibleKeys load_state_dict(const TensorMap& state, bool strict = true);

 protected:
  /// For clone(): its own memory, and Parameters, Buffers and Handles like it. Error elsewhere.
  Module(const Module& other);

  /// How many children this module has registered.
  int64_t num_children() const { return static_cast<int64_t>(children_.size()); }

  /// Registers a trainable tensor under `name`; keep what it returns as an nn::Parameter member. An
  /// undefined one (no bias) is kept out of parameters(). A Parameter may be frozen.
  Registered<Parameter, Tensor> add_parameter(const std::string& name, const Tensor& value);
  Registered<Parameter, Tensor> add_parameter(const std::string& name, const Parameter& value);
  /// Registers a tensor that is state but not trained, to be kept as an nn::Buffer member.
  Registered<Buffer, Tensor> add_buffer(const std::string& name, const Tensor& value);
  /// Registers a child module under `name`, to be kept as an nn::Handle member.
  template <std::derived_from<Module> M>
  Child<M> add(const std::string& name, M&& module) {
    return add(name, Handle<M>(std::make_shared<M>(std::move(module))));
  }
  template <class M>
  Child<M> add(const std::string& name, const Handle<M>& module) {
    return Child<M>(add_child(name, module.shared()));
  }

 private:
  template <class Value>
  using Places = std::vector<std::pair<std::string, std::shared_ptr<places::Place<Value>>>>;
  template <class M>
  friend class Handle;
  friend class places::ModuleCopies;
  friend void places::set_copy(Module&, const std::type_info&, places::CopyModule);

  std::shared_ptr<places::ChildPlace> add_child(const std::string& name,
                                                std::shared_ptr<Module> module);
  /// What a place has. Error if the member that stood for it is gone.
  template <class Value>
  const Value& value_of(const std::string& name, places::Place<Value>& place) const;
  void check_name(const std::string& name) const;
  /// Error if `child` is this module or has it below itself.
  void check_no_cycle(const std::string& name, const Module& child) const;
  bool is_at_or_above(const Module& module) const;
  void append(Places<Tensor> Module::*list, const std::string& prefix, NamedTensors& all) const;
  void for_each_tensor(const std::function<void(const Tensor&)>& visit) const;

  Places<Tensor> parameters_;
  Places<Tensor> buffers_;
  Places<std::shared_ptr<Module>> children_;
  places::CopyModule copy_ = nullptr;
  bool training_ = true;
};

/// A copy of a module with memory of its own, tied as the module is, frozen where it is, without
/// gradients and hooks. What a class has beside Parameters, Buffers and Handles is copied as C++
/// copies it: a plain Tensor shares its memory. Error if a module in it has no copy constructor.
template <std::derived_from<Module> M>
M clone(const M& module) {
  places::check_class(module, typeid(M));
  const places::CloneScope scope;
  return M(module);
}
template <class M>
Handle<M> clone(const Handle<M>& module) {
  return Handle<M>(std::static_pointer_cast<M>(places::clone_shared(module.shared())));
}

/// Children `first` to `last` - 1 of a module.
struct ChildRange {
  int64_t first = 0;
  int64_t last = 0;
};

/// Modules applied one after another: `Sequential{Linear(784, 128), ReLU(), Linear(128, 10)}`.
/// Braces make the modules from left to right, so that equal seeds give equal weights with every
/// compiler. Parentheses leave the order to the compiler.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0 && (std::is_base_of_v<Module, std::decay_t<Modules>> &&
                                      ...)) explicit Sequential(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }

  /// Appends a child; its name is its number, from "0". Error for a null Handle.
  template <std::derived_from<Module> M>
  void push_back(M&& module) {
    add(std::to_string(size()), std::move(module));
  }
  template <class M>
  void push_back(const Handle<M>& module) {
    add(std::to_string(size()), module);
  }

  int64_t size() const { return num_children(); }  // how many children there are

  /// Runs each of these ranges of children as one checkpoint (nn/activation_checkpoint.h) where
  /// gradients are recorded. Error if they overlap or there are no such children.
  void set_checkpointed(std::vector<ChildRange> ranges);
  const std::vector<ChildRange>& checkpointed() const { return checkpointed_; }

  Tensor forward(const Tensor& x) override;
  std::string description() const override { return "Sequential"; }

 private:
  std::vector<ChildRange> checkpointed_;
};

/// Modules by number, each of type M or derived from it, for a parent that calls them itself:
///   nn::Handle<nn::ModuleList<nn::Linear>> layers = add("layers", nn::ModuleList<nn::Linear>());
///   for (int i = 0; i < 3; ++i) layers->push_back(nn::Linear(64, 64));
///   for (auto& layer : *layers) x = relu(layer(x));
template <class M = Module>
class ModuleList : public Module {
 public:
  /// Appends a child; its name is its number, from "0". Error for a null Handle.
  template <std::derived_from<M> Derived>
  void push_back(Derived&& module) {
    push_back(Handle<Derived>(std::make_shared<Derived>(std::move(module))));
  }
  template <class Derived>
  void push_back(const Handle<Derived>& module) {
    modules_.push_back(add(std::to_string(size()), Handle<M>(module)));
  }
  /// How many children there are.
  int64_t size() const { return static_cast<int64_t>(modules_.size()); }
  /// Error if there is no such module.
  const Handle<M>& operator[](int64_t i) const {
    WICK_CHECK(i >= 0 && i < size(), "ModuleList: index out of range: got ", i,
               ", expected less than ", size());
    return modules_[static_cast<size_t>(i)];
  }
  /// To replace one: `layers[0] = nn::Linear(64, 32)`.
  Handle<M>& operator[](int64_t i) { return const_cast<Handle<M>&>(std::as_const(*this)[i]); }
  /// The Handles in their order.
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  std::string description() const override { return "ModuleList"; }

 private:
  std::vector<Handle<M>> modules_;
};

/// Modules by name, in the order they were added, for a parent that calls them itself:
///   nn::Handle<nn::ModuleDict<>> heads = add("heads", nn::ModuleDict<>());
///   heads->insert("classes", nn::Linear(64, 10));
///   y = (*heads)["classes"](x);
template <class M = Module>
class ModuleDict : public Module {
 public:
  /// Error for a name that is there or has a dot.
  template <std::derived_from<M> Derived>
  void insert(const std::string& name, Derived&& module) {
    insert(name, Handle<Derived>(std::make_shared<Derived>(std::move(module))));
  }
  template <class Derived>
  void insert(const std::string& name, const Handle<Derived>& module) {
    modules_.emplace_back(name, add(name, Handle<M>(module)));
  }
  /// Number of modules.
  int64_t size() const { return static_cast<int64_t>(modules_.size()); }
  /// Whether there is a module of that name.
  bool contains(const std::string& name) const { return find(name) != nullptr; }
  /// Error if there is no such module.
  const Handle<M>& operator[](const std::string& name) const {
    const Handle<M>* found = find(name);
    WICK_CHECK(found != nullptr, "ModuleDict: no module of that name: got \"", name, "\"");
    return *found;
  }
  Handle<M>& operator[](const std::string& name) {
    return const_cast<Handle<M>&>(std::as_const(*this)[name]);
  }
  /// Pairs of a name and a Handle.
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  std::string description() const override { return "ModuleDict"; }

 private:
  const Handle<M>* find(const std::string& name) const {
    for (const auto& entry : modules_) {
      if (entry.first == name) return &entry.second;
    }
    return nullptr;
  }

  std::vector<std::pair<std::string, Handle<M>>> modules_;
};

/// What one module did in a summary's forward.
struct LayerSummary {
  std::string path;
  std::string description;
  int depth = 0;
  Shape output_shape;
  int64_t parameters = 0;  // of this module alone, its children not counted
  double flops = 0;        // of this call, children included
  int64_t output_bytes = 0;
};

/// Runs `module` once on `input` (in evaluation mode, nothing recorded) and tells what each part
/// made of it, in the order of the calls.
std::vector<LayerSummary> summarize(Module& module, const Tensor& input);

/// The summary as a text table with totals: layers, output shapes, parameters, FLOPs, memory.
std::string summary(Module& module, const Tensor& input);

}  // namespace wick::nn
