#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "wick/core/attribute.h"
#include "wick/core/autograd.h"
#include "wick/core/base/scoped_value.h"
#include "wick/core/fields.h"
#include "wick/core/saved_tensor_hooks.h"
#include "wick/core/tensor.h"
#include "wick/kernels/declare.h"

namespace wick {

/// In which precision autocast runs an operation.
enum class Autocast : uint8_t {
  kAsIs,        // in its inputs' dtypes
  kLower,       // inputs cast to the lower precision
  kToFloat32,   // inputs cast to float32
  kFloat32Out,  // inputs cast to float32, because the result is to be float32
  kPromote,     // inputs cast to the widest among them
  kBanned,      // an error that names the alternative
};

/// What autocast does with an op, by the device of its first input.
struct AutocastPolicy {
  Autocast cuda = Autocast::kAsIs;
  Autocast cpu = Autocast::kAsIs;
  const char* alternative = nullptr;  // to an op that is banned
};

/// What the door needs to know of an op beside its functions.
struct OpInfo {
  const char* name;
  AutocastPolicy autocast = {};
  bool view = false;           // the output shares the memory of input 0
  uint32_t mutates = 0;        // bit i: input i is changed in place
  bool broadcasts = false;     // gradients are summed back to the shapes of the inputs
  bool differentiable = true;  // false: results never require gradients, there is no backward
  bool any_device = false;     // inputs may be on different devices
  // Computes a gradient and has none itself (`differentiable` is false): to differentiate its
  // result is an error, where that of other such ops is a constant.
  bool is_gradient = false;
  // Whatever input 0, which it changes in place, held before is of no effect.
  bool overwrites = false;
  // The shape of the result depends on the elements of the inputs.
  bool shape_from_data = false;
  // One new result, element by element, by one call of the functor's kernel (kernels/elementwise.h)
  // on the inputs: ops that follow one another may run as one (docs/graphs.md).
  bool elementwise = false;
  // Exchanges tensors with other ranks: a graph keeps each call, as all ranks must make it.
  bool exchanges = false;
};

/// What an op keeps from forward for backward.
class Saved {
 public:
  /// Whether the result will be recorded: nothing needs to be kept otherwise.
  bool recording() const { return recording_; }
  /// Whether input `i` requires a gradient.
  bool needs(int i) const { return recording_ && (needs_ >> i & 1) != 0; }

  /// Keeps tensors, inputs or outputs or others, in this order. No effect unless recording.
  template <class... Tensors>
  void save(const Tensors&... tensors) {
    if (recording_) (push(tensors), ...);
  }
  /// Keeps input `i` (below 32), which forward has changed in place, as it is now.
  void save_changed(int i, const Tensor& input);
  /// The i-th kept tensor. Error if it was changed in place since.
  Tensor operator[](int i) const;
  bool empty() const { return entries_.empty(); }  // whether no tensor is kept
  /// Shape, dtype and device of input `i`, known in backward without keeping the input.
  const TensorMeta& input(int i) const;
  int num_inputs() const;  // that the op was called with

 private:
  friend class OpNode;
  friend struct Door;
  struct Entry {
    Tensor tensor;
    uint64_t version = 0;
    int output = -1;  // it is this output of the op: kept without its graph, to avoid a cycle
    // Where one of these is set the tensor is not kept: `packed` stands in for it, it is cast again
    // from the weight that is in its place, or what made it makes it again.
    Ref<PackedTensor> packed;
    std::optional<Dtype> cast;
    Edge maker;
  };
  void push(const Tensor& tensor);
  Ref<Node> own_node() const;
  bool is_packed() const;

  std::vector<Entry> entries_;
  const Node* node_ = nullptr;
  uint64_t needs_ = 0;
  uint32_t counted_ = 0;  // bit i: the change of input i is in its version already
  bool recording_ = false;
};

/// The functions of one op type, with the type removed.
struct OpType {
  OpInfo info;
  int num_inputs;  // -1: any number, as a list
  std::vector<Tensor> (*forward)(const void* op, Saved& saved, std::span<const Tensor> inputs);
  Gradients (*backward)(const void* op, const Saved& saved, std::span<const Tensor> grads);
  bool (*can_recompute)(const void* op, const Saved& saved);
  Tensor (*recompute)(const void* op, const Saved& saved);
  double (*flops)(const void* op, std::span<const Tensor> inputs, const Tensor& output);
  void* (*copy)(const void* op);
  void (*destroy)(void* op);
  /// An op with the initial values of its fields; null if the struct has no such.
  void* (*create)();
  /// The values of `fields`, in their order.
  std::vector<NamedAttribute> (*attributes)(const void* op);
  /// Gives the fields other values: their number is that of `fields`. Returns the name of a field
  /// whose value is of the wrong kind, or null.
  const char* (*set_attributes)(void* op, std::span<const Attribute> values);
};

/// An op's name and the values of its fields: "sum(axes=[1], keepdim=true)".
std::string describe(const OpType& type, const void* op);

/// All op types of this program, in no particular order.
std::span<const OpType* const> registered_ops();

/// The one door: checks devices, runs forward, records for backward.
std::vector<Tensor> run_op(const OpType& type, const void* op, std::span<const Tensor> inputs);

/// What a recorded op keeps for its backward.
struct KeptForBackward {
  uint64_t needs = 0;  // as Saved::needs
  std::vector<Tensor> tensors;
};

/// Runs an op again that went through the door before, without gradients and without autocast's
/// casts, which were recorded as ops. `kept` (or null), whose `needs` are given, gets what the op
/// keeps where gradients are recorded.
std::vector<Tensor> replay_op(const OpType& type, const void* op, std::span<const Tensor> inputs,
                              KeptForBackward* kept);

/// Whether outputs that are cheap to recompute (batch norm's, and what autocast makes of weights)
/// are freed after forward and recomputed in backward. That saves memory and gives the same bits.
/// On unless set.
bool recompute_enabled();
void set_recompute(bool on);

/// Counts the floating point operations of the ops this thread runs while it lives (a multiply and
/// an add are two).
class FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;
  /// The count so far. That of an inner FlopCounter joins it when the inner one ends.
  double flops() const { return flops_; }
  /// Adds to the count: the engine calls it for each op.
  void add(double flops) { flops_ += flops; }

 private:
  ScopedValue<FlopCounter*> in_force_;
  double flops_ = 0;
};

namespace detail {

[[noreturn]] void no_second_derivative(const OpInfo& info);

// How Op::forward and Op::backward take their tensors: a fixed number, or as a list.
template <class Function>
struct Signature;
template <class R, class Op, class Context, class... Args>
struct Signature<R (Op::*)(Context, Args...) const> {
  static constexpr bool is_list =
      sizeof...(Args) == 1 && (std::is_same_v<std::decay_t<Args>, std::span<const Tensor>> && ...);
  static constexpr size_t arity = sizeof...(Args);
};

template <class Op, class Context, class Method, size_t... I>
auto call_fixed(const Op& op, Method method, Context& context, std::span<const Tensor> in,
                std::index_sequence<I...>) {
  return (op.*method)(context, in[I]...);
}

template <class Op, class Context, class Method>
auto call(const void* op, Method method, Context& context, std::span<const Tensor> in) {
  using S = Signature<Method>;
  const Op& self = *static_cast<const Op*>(op);
  if constexpr (S::is_list) {
    return (self.*method)(context, in);
  } else {
    return call_fixed(self, method, context, in, std::make_index_sequence<S::arity>());
  }
}

template <class Result>
std::vector<Tensor> as_list(Result&& result) {
  using R = std::decay_t<Result>;
  if constexpr (std::is_same_v<R, Tensor>) {
    std::vector<Tensor> list;
    list.push_back(std::forward<Result>(result));
    return list;
  } else if constexpr (std::is_same_v<R, std::vector<Tensor>>) {
    return std::forward<Result>(result);
  } else {
    return std::vector<Tensor>(result.begin(), result.end());
  }
}

struct AttributeReader {
  std::vector<NamedAttribute>& all;

  template <class T>
  void operator()(const char* name, const T& value) const {
    all.push_back({name, to_attribute(value)});
  }
};

// std::monostate leaves a field as it is.
struct AttributeSetter {
  std::span<const Attribute>& left;
  const char*& wrong;

  template <class T>
  void operator()(const char* name, T& value) const {
    const Attribute& given = left.front();
    left = left.subspan(1);
    if (std::holds_alternative<std::monostate>(given)) return;
    if (!from_attribute(given, value) && wrong == nullptr) wrong = name;
  }
};

template <class Op>
[[gnu::cold]] std::vector<NamedAttribute> attributes_of(const void* op) {
  std::vector<NamedAttribute> all;
  if constexpr (requires { Op::fields; }) {
    for_each_field(*static_cast<const Op*>(op), AttributeReader{all});
  }
  return all;
}

template <class Op>
[[gnu::cold]] const char* set_attributes_of(void* op, std::span<const Attribute> values) {
  const char* wrong = nullptr;
  if constexpr (requires { Op::fields; }) {
    for_each_field(*static_cast<Op*>(op), AttributeSetter{values, wrong});
  }
  return wrong;
}

template <class Op>
constexpr OpType make_op_type() {
  OpType type;
  type.info = Op::info;
  using Forward = Signature<decltype(&Op::forward)>;
  type.num_inputs = Forward::is_list ? -1 : static_cast<int>(Forward::arity);
  type.forward = [](const void* op, Saved& saved, std::span<const Tensor> inputs) {
    return as_list(call<Op>(op, &Op::forward, saved, inputs));
  };
  type.backward = nullptr;
  if constexpr (Op::info.differentiable) {
    type.backward = [](const void* op, const Saved& saved, std::span<const Tensor> grads) {
      return call<Op>(op, &Op::backward, saved, grads);
    };
  } else if constexpr (Op::info.is_gradient) {
    type.backward = [](const void*, const Saved&, std::span<const Tensor>) -> Gradients {
      no_second_derivative(Op::info);
    };
  }
  type.can_recompute = nullptr;
  type.recompute = nullptr;
  if constexpr (requires { &Op::recompute; }) {
    type.can_recompute = [](const void* op, const Saved& saved) {
      return static_cast<const Op*>(op)->can_recompute(saved);
    };
    type.recompute = [](const void* op, const Saved& saved) {
      return static_cast<const Op*>(op)->recompute(saved);
    };
  }
  type.flops = nullptr;
  if constexpr (requires { &Op::flops; }) {
    type.flops = [](const void* op, std::span<const Tensor> inputs, const Tensor& output) {
      return static_cast<const Op*>(op)->flops(inputs, output);
    };
  }
  type.copy = [](const void* op) -> void* { return new Op(*static_cast<const Op*>(op)); };
  type.destroy = [](void* op) { delete static_cast<Op*>(op); };
  type.create = nullptr;
  if constexpr (std::is_default_constructible_v<Op>) {
    type.create = []() -> void* { return new Op(); };
  }
  type.attributes = &attributes_of<Op>;
  type.set_attributes = &set_attributes_of<Op>;
  return type;
}

/// Adds `type` to registered_ops(). Returns true.
bool register_op(const OpType* type);

// `type` is a constant, there before any initialiser runs: a static tensor may be made by ops that
// are listed later.
template <class Op>
struct Registration {
  static constexpr OpType type = make_op_type<Op>();
  static const bool listed;
};
template <class Op>
const bool Registration<Op>::listed = register_op(&Registration<Op>::type);

template <class Op>
const OpType& op_type() {
  static_cast<void>(&Registration<Op>::listed);  // named here, so that it is initialised
  return Registration<Op>::type;
}

[[noreturn]] void wrong_number_of_inputs(const OpInfo& info, size_t got, size_t expected);

template <class List>
concept TensorList = std::is_convertible_v<const List&, std::span<const Tensor>>;

template <class Op>
using ForwardResult = decltype(call<Op>(nullptr, &Op::forward, std::declval<Saved&>(),
                                        std::declval<std::span<const Tensor>>()));

template <class Result>
Result from_list(std::vector<Tensor>&& list) {
  if constexpr (std::is_same_v<Result, Tensor>) {
    return std::move(list[0]);
  } else if constexpr (std::is_same_v<Result, std::vector<Tensor>>) {
    return std::move(list);
  } else {
    Result result;
    for (size_t i = 0; i < result.size(); ++i) result[i] = std::move(list[i]);
    return result;
  }
}

}  // namespace detail

/// Applies `op` to its inputs: the only way an operation is carried out. Returns what Op::forward
/// returns: a tensor, an array of them, or a list. An op is a struct with
///   static constexpr OpInfo info
///   static constexpr auto fields   its attributes, if it has any
///   forward(Saved&, const Tensor& a, ...) const, or with one std::span<const Tensor>
///   Gradients backward(const Saved&, const Tensor& grad, ...) const, unless not differentiable
///   bool can_recompute(const Saved&) const and Tensor recompute(const Saved&) const, where its one
///     output is cheap to recompute, bit for bit, from what backward keeps: ops that would keep
///     that output for their backward then do not
///   double flops(std::span<const Tensor> inputs, const Tensor& output) const, where it computes
/// A tensor that forward gives back as it came in is returned as another handle to its elements (a
/// view of it), unless the op changes it in place: the handle that the caller has stays what it
/// was.
///
/// The inputs are tensors, or one list of them: a vector, an array or a span. (Of the same form as
/// std::apply and constrained, so that it is the one found for a list without naming `wick`.)
template <class OpRef, class List>
requires detail::TensorList<std::remove_cvref_t<List>>
auto apply(OpRef&& op, List&& list) {
  using Op = std::remove_cvref_t<OpRef>;
  using Forward = detail::Signature<decltype(&Op::forward)>;
  const std::span<const Tensor> inputs(list);
  if constexpr (!Forward::is_list) {
    if (inputs.size() != Forward::arity) {
      detail::wrong_number_of_inputs(Op::info, inputs.size(), Forward::arity);
    }
  }
  const Op& self = op;
  return detail::from_list<detail::ForwardResult<Op>>(run_op(detail::op_type<Op>(), &self, inputs));
}
template <class Op, class... Inputs>
auto apply(const Op& op, const Tensor& first, const Inputs&... rest) {
  using Forward = detail::Signature<decltype(&Op::forward)>;
  static_assert(Forward::is_list || Forward::arity == 1 + sizeof...(Inputs),
                "apply: as many tensors as the op's forward takes");
  const std::array<Tensor, 1 + sizeof...(Inputs)> inputs{first, rest...};
  return apply(op, std::span<const Tensor>(inputs));
}

}  // namespace wick
