#pragma once

#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "wick/core/autograd.h"
#include "wick/core/recompute_region.h"
#include "wick/nn/module.h"

namespace wick::nn {

namespace checkpointed {

template <class T>
constexpr bool is_tensor = std::is_base_of_v<Tensor, T>;
template <class T>
constexpr bool is_tensor_list = std::is_same_v<T, std::vector<Tensor>>;

template <class T>
void collect_tensors(const T& argument, std::vector<Tensor>& into) {
  if constexpr (is_tensor<T>) {
    into.push_back(argument);
  } else if constexpr (is_tensor_list<T>) {
    into.insert(into.end(), argument.begin(), argument.end());
  }
}

/// What is kept of an argument beside its tensors.
template <class T>
auto without_tensors(const T& argument) {
  if constexpr (is_tensor<T>) {
    return Tensor();
  } else if constexpr (is_tensor_list<T>) {
    return T(argument.size());
  } else {
    return argument;
  }
}

template <class T>
void put_tensors(T& argument, std::span<const Tensor>& from) {
  if constexpr (is_tensor<T>) {
    argument = from.front();
    from = from.subspan(1);
  } else if constexpr (is_tensor_list<T>) {
    for (Tensor& tensor : argument) put_tensors(tensor, from);
  }
}

/// Calls a function again, with the tensors given in place of those that it was first called with.
template <class Function, class Arguments>
struct Again {
  Function function;
  Arguments rest;  // without the tensors

  void operator()(std::span<const Tensor> given) const {
    run(given, std::make_index_sequence<std::tuple_size_v<Arguments>>());
  }
  /// Calls `function` with a copy of `rest` that has the tensors `given`, in order, in their
  /// places. `I` counts all arguments.
  template <size_t... I>
  void run(std::span<const Tensor> given, std::index_sequence<I...>) const {
    Arguments arguments = rest;
    (put_tensors(std::get<I>(arguments), given), ...);
    function(std::as_const(std::get<I>(arguments))...);
  }
};

}  // namespace checkpointed

/// Activation checkpointing (Chen et al. 2016, arXiv 1604.06174): returns `function(inputs...)`.
/// What its ops would keep for backward is freed, and recomputed by a second call when backward
/// comes to it. Time for memory: a third more computation if all of a network is treated so. The
/// gradients have the same bits.
///
/// PyTorch's `checkpoint(..., use_reentrant=False)`, with these differences: batch norm counts each
/// batch once, and a changed input is an error. Works with grad(), retain_graph, create_graph, and
/// checkpoints within checkpoints.
///
/// Tensors, and vectors of them, among `inputs` are kept; other inputs are copied. `function` is
/// copied too; tensors that it captures stay alive until backward, modules that it points to must.
/// Called twice, it must do the same twice, and change nothing outside. It may draw random numbers:
/// the second call draws the same again, from any generator, and under the same autocast.
///
/// Errors in backward: an input changed in place since, a second call that keeps other tensors than
/// the first, backward within `function`. Without gradients it is a plain call.
template <class Function, class... Inputs>
auto checkpoint(const RecomputeOptions& options, const Function& function, const Inputs&... inputs)
    -> std::invoke_result_t<const Function&, const Inputs&...> {
  if (!grad_enabled()) return function(inputs...);
  std::vector<Tensor> tensors;
  (checkpointed::collect_tensors(inputs, tensors), ...);
  using Arguments = std::tuple<decltype(checkpointed::without_tensors(inputs))...>;
  const RecomputeScope scope(
      checkpointed::Again<Function, Arguments>{function,
                                               {checkpointed::without_tensors(inputs)...}},
      tensors, options);
  tensors.clear();
  return function(inputs...);
}

template <class Function, class... Inputs>
auto checkpoint(const Function& function, const Inputs&... inputs)
    -> std::invoke_result_t<const Function&, const Inputs&...> {
  return checkpoint(RecomputeOptions{}, function, inputs...);
}

/// Runs `layers` on x in `segments` parts of about the same number of children, of which all but
/// the last are checkpointed. Error unless 1 <= segments <= number of children.
Tensor checkpoint_sequential(const Sequential& layers, int64_t segments, const Tensor& x,
                             const RecomputeOptions& options = {});

}  // namespace wick::nn
