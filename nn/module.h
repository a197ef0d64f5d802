#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "wick/core/serialize.h"
#include "wick/core/tensor.h"

namespace wick::nn {

class Module;

/// While it lives, a module computes on some input, which summaries and searches for anomalies see.
/// Calls of modules make it; so does a function beside forward:
///   Tensor encode(const Tensor& x) { nn::ForwardScope scope(*this); return scope.made(fc(x)); }
class ForwardScope {
 public:
  /// Who looks.
  class Watch {
   public:
    virtual ~Watch() = default;
    virtual void made(const Tensor&) {}
  };

  explicit ForwardScope(Module& module);
  ~ForwardScope();
  ForwardScope(const ForwardScope&) = delete;
  ForwardScope& operator=(const ForwardScope&) = delete;
  /// Tells what the module has made of it, and returns that.
  Tensor made(Tensor y);

 private:
  std::unique_ptr<Watch> watch_;  // null where nobody looks
};

/// Tensors by dotted name, in the order of registration: "layer1.0.conv1.weight".
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// A registered child module: shared, called like a function.
template <class M>
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<M> module) : module_(std::move(module)) {}
  template <class Derived>
  requires std::is_convertible_v<Derived*, M*> Handle(const Handle<Derived>& other)
      : module_(other.shared()) {}

  /// The module's forward with these arguments, seen by summaries.
  template <class... Args>
  Tensor operator()(const Args&... args) const {
    ForwardScope scope(*module_);
    return scope.made(module_->forward(args...));
  }
  M* operator->() const { return module_.get(); }
  M& operator*() const { return *module_; }
  explicit operator bool() const { return module_ != nullptr; }
  const std::shared_ptr<M>& shared() const { return module_; }

 private:
  std::shared_ptr<M> module_;
};

/// A part of a network: named parameters, buffers and child modules, and how they compute.
/// Derive from it, register what it owns in the constructor, and define forward:
///
///   struct Net : nn::Module {
///     nn::Handle<nn::Linear> fc = add("fc", nn::Linear(784, 10));
///     Tensor forward(const Tensor& x) override { return fc(x.flatten(1)); }
///   };
class Module {
 public:
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  /// The computation on one input. Modules that need more have a forward of their own instead.
  virtual Tensor forward(const Tensor& x);
  /// "Linear(in_features=784, out_features=10)": how summaries and errors name it; the name of the
  /// class where it is not overridden.
  virtual std::string description() const;

  /// Calls forward, seen by summaries.
  Tensor operator()(const Tensor& x) { return call(x); }
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
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const {
    return children_;
  }
  /// Calls `visit(path, module)` for this module and all below it, parents first.
  void apply(const std::function<void(const std::string& path, Module& module)>& visit,
             const std::string& path = "");

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
  /// converted to their dtypes and devices. Every name must be there with its shape, and
  /// no other, unless `strict` is false. Nothing is changed if that does not hold.
  void load_state_dict(const TensorMap& state, bool strict = true);

 protected:
  /// Registers a trainable tensor under `name` and returns it. An undefined one (no bias) is kept
  /// out of parameters().
  Tensor add_parameter(const std::string& name, const Tensor& value);
  /// Registers a tensor that is state but not trained.
  Tensor add_buffer(const std::string& name, const Tensor& value);
  /// Registers a child module under `name`.
  template <class M>
  Handle<M> add(const std::string& name, M module) {
    return add(name, Handle<M>(std::make_shared<M>(std::move(module))));
  }
  template <class M>
  Handle<M> add(const std::string& name, const Handle<M>& module) {
    add_child(name, module.shared());
    return module;
  }

 private:
  void add_child(const std::string& name, std::shared_ptr<Module> module);
  void check_name(const std::string& name) const;
  void append(NamedTensors Module::*list, const std::string& prefix, NamedTensors& all) const;
  void for_each_tensor(const std::function<void(const Tensor&)>& visit) const;

  NamedTensors parameters_;
  NamedTensors buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
};

/// Children `first` to `last` - 1 of a module.
struct ChildRange {
  int64_t first = 0;
  int64_t last = 0;
};

/// Modules applied one after another: `Sequential(Linear(784, 128), ReLU(), Linear(128, 10))`.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0 && (std::is_base_of_v<Module, std::decay_t<Modules>> &&
                                      ...)) explicit Sequential(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }

  template <class M>
  requires std::is_base_of_v<Module, M>
  void push_back(M module) { add(std::to_string(children().size()), std::move(module)); }
  template <class M>
  void push_back(const Handle<M>& module) {
    add(std::to_string(children().size()), module);
  }

  int64_t size() const { return static_cast<int64_t>(children().size()); }

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
  template <class Derived>
  requires std::is_base_of_v<M, Derived>
  void push_back(Derived module) {
    push_back(Handle<Derived>(std::make_shared<Derived>(std::move(module))));
  }
  template <class Derived>
  void push_back(const Handle<Derived>& module) {
    modules_.push_back(add(std::to_string(size()), Handle<M>(module)));
  }
  int64_t size() const { return static_cast<int64_t>(modules_.size()); }
  /// Error if there is no such module.
  const Handle<M>& operator[](int64_t i) const {
    WICK_CHECK(i >= 0 && i < size(), "ModuleList: index out of range: got ", i,
               ", expected less than ", size());
    return modules_[static_cast<size_t>(i)];
  }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  std::string description() const override { return "ModuleList"; }

 private:
  std::vector<Handle<M>> modules_;
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
