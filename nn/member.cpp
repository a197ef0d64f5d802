#include "wick/nn/member.h"

#include <unordered_map>

#include "wick/core/autograd.h"
#include "wick/nn/module.h"

namespace wick::nn {

namespace {

// What is copied so far in a clone(): each tensor and module once, so that ties stay.
struct Copies {
  std::unordered_map<const TensorImpl*, Tensor> tensors;
  std::unordered_map<const Module*, std::shared_ptr<Module>> modules;
  std::unordered_map<const places::Place<Tensor>*, std::shared_ptr<places::Place<Tensor>>>
      tensor_places;
  std::unordered_map<const places::ChildPlace*, std::shared_ptr<places::ChildPlace>> child_places;

  auto& places(const places::Place<Tensor>&) { return tensor_places; }
  auto& places(const places::ChildPlace&) { return child_places; }
};
thread_local Copies* copies = nullptr;

Tensor copy_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  Tensor& copy = copies->tensors[tensor.impl()];
  if (!copy.defined()) {
    const NoGrad no_grad;
    copy = tensor.detach().clone();
    if (tensor.requires_grad()) copy.set_requires_grad();
  }
  return copy;
}

}  // namespace

namespace places {

class ModuleCopies {
 public:
  static std::shared_ptr<Module> copy_of(const std::shared_ptr<Module>& module) {
    if (module == nullptr) return nullptr;
    const auto known = copies->modules.find(module.get());
    if (known != copies->modules.end()) return known->second;
    WICK_CHECK(module->copy_ != nullptr, "clone: ", module->description(),
               ": the module cannot be copied: got one whose class has no copy constructor, or "
               "that no Handle of that class has held");
    auto copy = module->copy_(*module);
    copies->modules.emplace(module.get(), copy);
    return copy;
  }
};

CloneScope::CloneScope() : before_(copies) { copies = new Copies; }

CloneScope::~CloneScope() { delete std::exchange(copies, static_cast<Copies*>(before_)); }

void check_class(const Module& module, const std::type_info& type) {
  WICK_CHECK(typeid(module) == type, "clone: ", module.description(),
             ": got a reference to a base class, expected a Handle or the class itself");
}

std::shared_ptr<Module> clone_shared(const std::shared_ptr<Module>& module) {
  const CloneScope scope;
  return ModuleCopies::copy_of(module);
}

void set_copy(Module& module, const std::type_info& type, CopyModule copy) {
  if (typeid(module) == type) module.copy_ = copy;
}

template <class Value>
std::shared_ptr<Place<Value>> copy_place(const Place<Value>& place) {
  WICK_CHECK(copies != nullptr,
             "module: copied: got a copy of a whole module, expected one that is moved, cloned by "
             "nn::clone() or shared by an nn::Handle");
  auto copy = std::make_shared<Place<Value>>();
  copy->is_lost = place.is_lost;
  if constexpr (std::is_same_v<Value, Tensor>) {
    copy->kept = nn::copy_of(place.value());
  } else {
    copy->kept = ModuleCopies::copy_of(place.value());
  }
  copies->places(place)[&place] = copy;
  return copy;
}

template std::shared_ptr<Place<Tensor>> copy_place(const Place<Tensor>&);
template std::shared_ptr<ChildPlace> copy_place(const ChildPlace&);

template <class Value>
Member<Value>::Member(std::shared_ptr<Place<Value>> place) : Value(place->kept) {
  take(std::move(place));
}

template <class Value>
Member<Value>::Member(const Member& other) : Value(other), expects(other.expects) {
  if (copies == nullptr) return;
  if constexpr (std::is_same_v<Value, Tensor>) {
    Value::operator=(nn::copy_of(other));
  } else {
    Value::operator=(ModuleCopies::copy_of(other));
  }
  if (other.place_ == nullptr || other.place_->member != &other) return;
  auto& places = copies->places(*other.place_);
  const auto place = places.find(other.place_.get());
  if (place != places.end()) take(place->second);
}

template <class Value>
Member<Value>::Member(Member&& other) noexcept : Value(other), expects(other.expects) {
  follow(other);
}

template <class Value>
Member<Value>& Member<Value>::operator=(const Member& other) {
  Value::operator=(other);
  return *this;
}

template <class Value>
Member<Value>& Member<Value>::operator=(Member&& other) noexcept {
  if (this == &other) return *this;
  Value::operator=(static_cast<const Value&>(other));
  const bool moves =
      other.place_ != nullptr && other.place_->member == &other && other.place_->is_moving;
  if (moves) leave();
  if (place_ == nullptr) follow(other);
  return *this;
}

template <class Value>
void Member<Value>::take(std::shared_ptr<Place<Value>> place) noexcept {
  place_ = std::move(place);
  place_->member = this;
  place_->kept = Value();
}

// Of what stays where it is only the end counts: it leaves its place to who was moved from it last.
template <class Value>
void Member<Value>::follow(Member& other) noexcept {
  const std::shared_ptr<Place<Value>> place = other.place_;
  if (place != nullptr && !(place->member == &other && place->is_moving)) {
    if (place->heir != nullptr) place->heir->place_.reset();
    place->heir = this;
    place_ = place;
    return;
  }
  if (place != nullptr) {
    place->is_moving = false;
    place->member = this;
    place_ = std::move(other.place_);
  }
  static_cast<Value&>(other) = Value();
}

template <class Value>
void Member<Value>::leave() noexcept {
  const std::shared_ptr<Place<Value>> place = std::move(place_);
  place_.reset();
  if (place == nullptr) return;
  if (place->heir == this) place->heir = nullptr;
  if (place->member != this) return;
  place->member = std::exchange(place->heir, nullptr);
  if (place->member != nullptr) return;
  place->kept = *this;
  place->is_lost = true;
}

template class Member<Tensor>;
template class Member<std::shared_ptr<Module>>;

}  // namespace places

Parameter::Parameter(const Tensor& data, bool requires_grad)
    : Member(data.defined() && (!data.is_leaf() || (data.requires_grad() && !requires_grad))
                 ? data.detach()
                 : data) {
  if (defined() && requires_grad) set_requires_grad();
}

}  // namespace wick::nn
