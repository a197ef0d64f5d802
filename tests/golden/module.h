#pragma once

#include "wick/nn/nn.h"
#include "wick/tests/golden/opinfo.h"

// How modules that make_module_cases.py records are made and called with Wick.

namespace wick::golden {

// clang-format off
template <> struct Read<nn::Nonlinearity> { static nn::Nonlinearity from(const Argument& a); };
template <> struct Read<nn::FeedForwardActivation> {
  static nn::FeedForwardActivation from(const Argument& a);
};
template <> struct Read<nn::PackedSequence> { static nn::PackedSequence from(const Argument& a); };
template <> struct Read<nn::ConvMargin> { static nn::ConvMargin from(const Argument& a); };
// clang-format on

inline Tensors results(const nn::LSTMState& y) { return {y.h, y.c}; }
inline Tensors results(const nn::LSTMOutput& y) { return {y.output, y.state.h, y.state.c}; }
inline Tensors results(const nn::RNNOutput& y) { return {y.output, y.h_n}; }
inline Tensors results(const nn::AttentionWithWeights& y) { return {y.output, y.weights}; }

using Arguments = std::vector<Argument>;

/// How a module is made and called: signatures as those of call(), and what takes their arguments.
struct ModuleSpelling {
  std::string constructor;
  std::function<std::shared_ptr<nn::Module>(const Arguments& arguments)> make;
  std::string signature;
  std::function<Tensors(nn::Module& module, const Arguments& arguments)> run;
};

/// A module that `make` makes of the arguments that `constructor` names, and `run` calls with those
/// that `signature` names.
template <class M, class... A, class R, class... B>
ModuleSpelling layer(M (*make)(A...), const char* constructor, R (*run)(M&, B...),
                     const char* signature) {
  return {
      constructor,
      [make](const Arguments& arguments) {
        const auto made = [&]<size_t... I>(std::index_sequence<I...>) {
          return std::make_shared<M>(make(read<std::decay_t<A>>(arguments.at(I))...));
        };
        return std::shared_ptr<nn::Module>(made(std::index_sequence_for<A...>()));
      },
      signature,
      [run](nn::Module& module, const Arguments& arguments) {
        const auto ran = [&]<size_t... I>(std::index_sequence<I...>) {
          return results(run(static_cast<M&>(module), read<std::decay_t<B>>(arguments.at(I))...));
        };
        return ran(std::index_sequence_for<B...>());
      }};
}

/// A module of one input.
template <class M, class... A>
ModuleSpelling layer(M (*make)(A...), const char* constructor) {
  return layer(
      make, constructor, +[](M& m, const Tensor& x) { return m(x); }, "input");
}

/// A module of an input and a target.
template <class M, class... A>
ModuleSpelling loss(M (*make)(A...), const char* constructor) {
  return layer(
      make, constructor, +[](M& m, const Tensor& x, const Tensor& target) { return m(x, target); },
      "input target");
}

/// The spellings of a module, of which the first that takes the case's arguments is run.
using ModuleSpellings = std::map<std::string, std::vector<ModuleSpelling>>;

/// Adds to the table of all modules: `const ModuleTable more({{"ReLU", {layer(...)}}, ...});`
struct ModuleTable {
  ModuleTable(const ModuleSpellings& spellings);
};

}  // namespace wick::golden
