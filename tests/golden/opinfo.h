#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wick/core/ops/activation.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/count.h"
#include "wick/core/ops/divide.h"
#include "wick/core/ops/embedding_bag.h"
#include "wick/core/ops/grid_sample.h"
#include "wick/core/ops/interpolate.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/loss.h"
#include "wick/core/ops/scatter_reduce.h"
#include "wick/core/ops/sort.h"
#include "wick/core/ops/statistics.h"
#include "wick/tests/golden/golden.h"

// How calls of PyTorch's functions, as make_opinfo_cases.py records them, are written with Wick: a
// table of spellings for each op, of which the first that takes the call's arguments is run.

namespace wick::golden {

/// A call as it was recorded: arguments in order and by name, {"tensor": NAME} among them.
struct Recorded {
  nlohmann::json arguments, named;
  TensorMap tensors;
};

/// One argument. What reads it throws Missing where it is of another kind.
struct Argument {
  std::string name;
  const nlohmann::json* value;
  const TensorMap* tensors;

  [[noreturn]] void unfit(const char* expected) const;
  Argument entry(const nlohmann::json& part) const { return {name, &part, tensors}; }
  bool is_tensor() const { return value->is_object() && value->contains("tensor"); }
  bool is_number() const;
  double number() const;
  int64_t integer() const;
  const std::string& text(const char* expected) const;
  /// The entry of `words` that the argument names.
  template <class E>
  E word(const std::map<std::string, E>& words) const {
    const auto found = words.find(text("one of Wick's words"));
    if (found == words.end()) unfit("one of Wick's words");
    return found->second;
  }
};

/// Reads an argument as T.
template <class T>
struct Read;

template <class T>
T read(const Argument& argument) {
  return Read<T>::from(argument);
}

template <class T>
std::vector<T> read_list(const Argument& a, const char* expected) {
  if (!a.value->is_array()) a.unfit(expected);
  std::vector<T> list;
  for (const nlohmann::json& part : *a.value) list.push_back(read<T>(a.entry(part)));
  return list;
}

// clang-format off
template <> struct Read<Tensor> { static Tensor from(const Argument& a); };
template <> struct Read<Scalar> { static Scalar from(const Argument& a); };
template <> struct Read<Dtype> { static Dtype from(const Argument& a); };
template <> struct Read<Shape> { static Shape from(const Argument& a); };
template <> struct Read<bool> { static bool from(const Argument& a); };
template <> struct Read<double> { static double from(const Argument& a) { return a.number(); } };
template <> struct Read<int64_t> { static int64_t from(const Argument& a); };
template <> struct Read<std::string> { static std::string from(const Argument& a); };
template <> struct Read<Argument> { static Argument from(const Argument& a) { return a; } };
template <> struct Read<LossReduction> { static LossReduction from(const Argument& a); };
template <> struct Read<Interpolation> { static Interpolation from(const Argument& a); };
template <> struct Read<PadMode> { static PadMode from(const Argument& a); };
template <> struct Read<Rounding> { static Rounding from(const Argument& a); };
template <> struct Read<QuantileMode> { static QuantileMode from(const Argument& a); };
template <> struct Read<ScatterReduction> { static ScatterReduction from(const Argument& a); };
template <> struct Read<GeluApproximation> { static GeluApproximation from(const Argument& a); };
template <> struct Read<ConvPadding> { static ConvPadding from(const Argument& a); };
template <> struct Read<BagMode> { static BagMode from(const Argument& a); };
template <> struct Read<GridMode> { static GridMode from(const Argument& a); };
template <> struct Read<GridPadding> { static GridPadding from(const Argument& a); };
// clang-format on
template <class T>
struct Read<std::optional<T>> {
  static std::optional<T> from(const Argument& a) {
    if (a.value->is_null()) return {};
    return read<T>(a);
  }
};
template <class T>
struct Read<std::vector<T>> {
  static std::vector<T> from(const Argument& a) { return read_list<T>(a, "a list"); }
};

// What a function gives, as a list of tensors.
inline Tensors results(const Tensor& y) { return {y}; }
inline Tensors results(Tensors y) { return y; }
inline Tensors results(const Sorted& y) { return {y.values, y.indices}; }
inline Tensors results(const std::pair<Tensor, Tensor>& y) { return {y.first, y.second}; }
inline Tensors results(bool y) { return {scalar_tensor(y, kBool)}; }
Tensors results(const Shape& y);

/// One way to write an op: which arguments it takes, and what it calls.
struct Spelling {
  std::string signature;
  std::function<Tensors(const std::vector<Argument>& arguments)> run;
};

// Functions of all types are kept as one type: so one std::function serves them.
template <class R, class... A, size_t... I>
Tensors run_spelling(void (*function)(), const std::vector<Argument>& arguments,
                     std::index_sequence<I...>) {
  const auto typed = reinterpret_cast<R (*)(A...)>(function);
  return results(typed(read<std::decay_t<A>>(arguments.at(I))...));
}

Spelling spelled(void (*function)(), const char* signature,
                 Tensors (*run)(void (*)(), const std::vector<Argument>&));

template <class R, class... A>
Spelling spelled(R (*function)(A...), const char* signature) {
  return spelled(reinterpret_cast<void (*)()>(function), signature,
                 [](void (*typeless)(), const std::vector<Argument>& arguments) {
                   return run_spelling<R, A...>(typeless, arguments,
                                                std::index_sequence_for<A...>());
                 });
}

/// `function` with the arguments that `signature` names, in the order of PyTorch's function:
/// "input dim=null keepdim=false". What stands behind = is PyTorch's default. "!sparse=false" is an
/// argument that `function` has no parameter for: it may have this value and no other. "tensors..."
/// takes all arguments that are left, as a list.
template <class F>
requires std::is_function_v<F> Spelling call(F* function, const char* signature) {
  return spelled(function, signature);
}
/// The same for a member.
template <class R, class... A>
Spelling call(R (Tensor::*member)(A...) const, const char* signature) {
  return {signature, [member](const std::vector<Argument>& arguments) {
            const auto run = [&]<size_t... I>(std::index_sequence<I...>) {
              return results((read<Tensor>(arguments.at(0)).*
                              member)(read<std::decay_t<A>>(arguments.at(I + 1))...));
            };
            return run(std::index_sequence_for<A...>());
          }};
}

/// Calls `run` with the call's arguments as `signature` orders them. Throws Missing where they do
/// not fit it.
void run_bound(const std::string& signature, const Recorded& call,
               const std::function<void(const std::vector<Argument>& arguments)>& run);

// What cases of this form share.

/// The tensors x0, x1, ... of a case; those in `grads` require a gradient.
TensorMap recorded_inputs(const Case& c);
/// As Case::expect, with an absolute tolerance in proportion to the largest element that is
/// expected.
void expect_scaled(const Case& c, const std::string& what, const Tensor& got,
                   const std::string& want);
/// The outputs y0, y1, ...; of a random case their shapes and dtypes alone.
void expect_outputs(const Case& c, const Tensors& outputs);
/// The gradients of `leaves`, by the names of those that are expected.
void expect_gradients(const Case& c, const Tensors& outputs,
                      const std::vector<std::pair<std::string, Tensor>>& leaves);

using Spellings = std::map<std::string, std::vector<Spelling>>;

/// Adds to the table of all ops: `const Opinfo more({{"relu", {call(relu, "input")}}, ...});`
struct Opinfo {
  Opinfo(const Spellings& spellings);
};

using Unary = Tensor(const Tensor&);
using Binary = Tensor(const Tensor&, const Tensor&);

}  // namespace wick::golden
