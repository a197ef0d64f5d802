#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "wick/core/core.h"

// Every public function of core/ops as one call that it takes, for tests of what holds for all.
namespace wick::testing {

struct Function {
  std::string name;                                        // with its namespace below wick, if any
  std::vector<Tensor> inputs;                              // none of which may be undefined
  std::function<Tensor(const std::vector<Tensor>&)> call;  // may return an undefined tensor
};

/// Overloads have an entry each.
std::vector<Function> all_functions();

namespace detail {

template <class F>
struct NumTensors;
template <class F, class... Args>
struct NumTensors<Tensor (F::*)(Args...) const> : std::index_sequence_for<Args...> {};

template <class F, size_t... I>
Tensor call_with(const F& f, const std::vector<Tensor>& in, std::index_sequence<I...>) {
  return f(in.at(I)...);
}

}  // namespace detail

/// The entry of a function that is called by `f`, a lambda of as many tensors as `inputs`.
template <class F>
Function entry(std::string name, std::vector<Tensor> inputs, F f) {
  return {std::move(name), std::move(inputs), [f](const std::vector<Tensor>& in) {
            return detail::call_with(f, in, detail::NumTensors<decltype(&F::operator())>());
          }};
}

inline Function unary(std::string name, Tensor (*f)(const Tensor&),
                      const Tensor& x = ones({2, 3}, kFloat64)) {
  return entry(std::move(name), {x}, [f](const Tensor& in) -> Tensor { return f(in); });
}

inline Function binary(std::string name, Tensor (*f)(const Tensor&, const Tensor&),
                       const Tensor& x = ones({2, 3}, kFloat64),
                       const Tensor& y = ones({2, 3}, kFloat64)) {
  return entry(std::move(name), {x, y},
               [f](const Tensor& a, const Tensor& b) -> Tensor { return f(a, b); });
}

// The parts of all_functions(), a file each.
std::vector<Function> elementwise_functions();
std::vector<Function> shape_functions();
std::vector<Function> reducing_functions();
std::vector<Function> product_functions();
std::vector<Function> network_functions();

}  // namespace wick::testing
