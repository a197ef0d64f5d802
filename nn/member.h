#pragma once

#include <atomic>
#include <concepts>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "wick/core/tensor.h"
#include "wick/nn/forward_scope.h"

namespace wick::nn {

class Module;

namespace places {

class ModuleCopies;
template <class Value>
class Member;

/// Where a module has what it registered under a name: in the member that took it. The member moves
/// with the module; what no member took is kept here.
template <class Value>
struct Place {
  /// Reads or assigns the value: the member's, or `kept` where there is no member.
  const Value& value() const { return member != nullptr ? *member : kept; }
  void set(const Value& value) { (member != nullptr ? *member : kept) = value; }

  Value kept;
  Member<Value>* member = nullptr;
  Member<Value>* heir = nullptr;  // moved from the member: stands for it once the member is gone
  // With its module: who is moved from the member takes over at once. Threads may call one module.
  std::atomic<bool> is_moving = false;
  bool is_lost = false;  // the member is gone, and copies of it may be in use
};

/// A value that a module may have registered: it is then the one place that has it, so that what is
/// assigned to it the module has from then on. Copies are plain values. Within clone() a copy is
/// deep, and registered where its original is.
template <class Value>
class Member : public Value {
 public:
  /// A plain value, which no module has registered.
  Member() = default;
  explicit Member(const Value& value) : Value(value) {}
  /// Becomes the member that stands for `place`, with its value.
  explicit Member(std::shared_ptr<Place<Value>> place);
  /// A plain value. Within clone() the copy is deep, and registered where `other` is.
  Member(const Member& other);
  /// Takes over the place of `other`: at once if its module moves, else when the member there is
  /// gone.
  Member(Member&& other) noexcept;
  /// Assigns the value alone; the place stays.
  Member& operator=(const Member& other);
  /// Assigns the value. Takes over the place of `other` too if its module moves, or if this has no
  /// place of its own.
  Member& operator=(Member&& other) noexcept;
  /// Leaves the place to the member that was moved from this one last. Without one the place keeps
  /// the value.
  ~Member() { leave(); }

  bool is_registered() const { return place_ != nullptr; }  // or moved from a member that is

  /// What the value must be, for those that stand for more than their type says: null if `value`
  /// is that.
  const std::type_info* (*expects)(const Value& value) = nullptr;

 private:
  void take(std::shared_ptr<Place<Value>> place) noexcept;
  void follow(Member& other) noexcept;
  void leave() noexcept;

  std::shared_ptr<Place<Value>> place_;
};

extern template class Member<Tensor>;
extern template class Member<std::shared_ptr<Module>>;

using ChildPlace = Place<std::shared_ptr<Module>>;
using ChildMember = Member<std::shared_ptr<Module>>;

using CopyModule = std::shared_ptr<Module> (*)(const Module& module);
/// Lets clone() copy a module by `copy`, if it is of the class that copies.
void set_copy(Module& module, const std::type_info& type, CopyModule copy);
template <class M>
std::shared_ptr<Module> copy_module(const Module& module) {
  return std::make_shared<M>(static_cast<const M&>(module));
}
template <class Value>
std::shared_ptr<Place<Value>> copy_place(const Place<Value>& place);
std::shared_ptr<Module> clone_shared(const std::shared_ptr<Module>& module);

/// While it lives, copies of modules and of their members on this thread are deep.
class CloneScope {
 public:
  CloneScope();
  ~CloneScope();
  CloneScope(const CloneScope&) = delete;
  CloneScope& operator=(const CloneScope&) = delete;

 private:
  void* before_;
};
/// Error unless that is the module's class, all of it.
void check_class(const Module& module, const std::type_info& type);

}  // namespace places

/// What registering gives: T itself, to be kept as the member that stands for what was registered.
template <class T, class Value>
class Registered {
 public:
  explicit Registered(std::shared_ptr<places::Place<Value>> place) : place_(std::move(place)) {}
  /// A Tensor would not be seen by the module when it is assigned: keep an nn::Parameter or an
  /// nn::Buffer.
  operator Tensor() const = delete;

 private:
  template <class M>
  friend class Handle;
  friend T;
  std::shared_ptr<places::Place<Value>> place_;
};

/// A trainable tensor of a module. As a member that was registered it is the module's own: what is
/// assigned to it, the parameter of another module (tied weights) or a new one, is what the module
/// computes with, saves, loads and moves. A copy is a handle to the same tensor, like a Tensor's.
class Parameter : public places::Member<Tensor> {
 public:
  Parameter() = default;
  /// Makes `data` a parameter; what is the result of an operation is detached. Error for integers
  /// that are to require a gradient.
  explicit Parameter(const Tensor& data, bool requires_grad = true);
  Parameter(Registered<Parameter, Tensor>&& registered) : Member(std::move(registered.place_)) {}
};

/// A tensor of a module that is state but not trained. As a member that was registered it is the
/// module's own, whatever is assigned to it.
class Buffer : public places::Member<Tensor> {
 public:
  Buffer() = default;
  explicit Buffer(const Tensor& data) : Member(data) {}
  Buffer(Registered<Buffer, Tensor>&& registered) : Member(std::move(registered.place_)) {}
  Buffer& operator=(Registered<Buffer, Tensor>&& registered) {
    return *this = Buffer(std::move(registered));
  }
  Buffer& operator=(const Tensor& data) {
    Tensor::operator=(data);
    return *this;
  }
};

template <class M>
class Handle;
template <class M>
using Child = Registered<Handle<M>, std::shared_ptr<Module>>;

/// A child module: shared, called like a function. As a member that a module registered it is the
/// module's own, as a Parameter is: a child is replaced by assigning to it, or by
/// Module::replace(). A copy refers to the child that was there when it was made.
template <class M>
class Handle : private places::ChildMember {
  using Base = places::ChildMember;

 public:
  Handle() { expects = &expected; }
  explicit Handle(std::shared_ptr<M> module) : Base(module) {
    expects = &expected;
    if constexpr (std::is_copy_constructible_v<M> && !std::is_abstract_v<M>) {
      if (module != nullptr) places::set_copy(*module, typeid(M), &places::copy_module<M>);
    }
  }
  template <class Derived>
  requires std::is_convertible_v<Derived*, M*> Handle(const Handle<Derived>& other)
      : Base(static_cast<const Base&>(other)) {
    expects = &expected;
  }
  template <class Derived>
  requires std::is_convertible_v<Derived*, M*> Handle(Handle<Derived>&& other)
      : Base(static_cast<Base&&>(other)) {
    expects = &expected;
  }
  template <class Derived>
  requires std::is_convertible_v<Derived*, M*> Handle(Child<Derived>&& registered)
      : Base(std::move(registered.place_)) {
    expects = &expected;
  }

  /// Replaces the child: `net.head = nn::Linear(512, 10)`. Error if no module registered this.
  template <std::derived_from<M> Derived>
  Handle& operator=(Derived&& module) {
    WICK_CHECK(is_registered(),
               "Handle: a module is assigned to what is no child: got a handle that no module "
               "registered, expected one that add() gave");
    return *this = Handle(Handle<Derived>(std::make_shared<Derived>(std::move(module))));
  }

  /// The module's forward with these arguments, seen by summaries.
  template <class... Args>
  Tensor operator()(const Args&... args) const {
    M& module = **this;
    ForwardScope scope(module);
    return scope.made(module.forward(args...));
  }
  M* operator->() const { return static_cast<M*>(get()); }
  M& operator*() const { return *static_cast<M*>(get()); }
  explicit operator bool() const { return get() != nullptr; }
  /// The module, or null.
  std::shared_ptr<M> shared() const { return std::static_pointer_cast<M>(value()); }

 private:
  template <class Other>
  friend class Handle;
  static const std::type_info* expected(const std::shared_ptr<Module>& module) {
    return dynamic_cast<M*>(module.get()) != nullptr ? nullptr : &typeid(M);
  }
  const std::shared_ptr<Module>& value() const { return *this; }
};

}  // namespace wick::nn
