#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "wick/core/tensor.h"

namespace wick::dist {

namespace detail {

// Stands for a value of any type, to count what a struct can be made of.
struct AnyValue {
  template <class T>
  operator T() const;  // NOLINT: the conversion is what it is for
};

template <class T, size_t... kPlaces>
constexpr bool takes(std::index_sequence<kPlaces...>) {
  return requires { T{(static_cast<void>(kPlaces), AnyValue{})...}; };
}

// How many members the plain struct T has.
template <class T, size_t kCount = 8>
constexpr size_t count_members() {
  if constexpr (takes<T>(std::make_index_sequence<kCount>())) {
    static_assert(!takes<T>(std::make_index_sequence<kCount + 1>()),
                  "a result of forward has more than 8 members");
    return kCount;
  } else if constexpr (kCount == 0) {
    return 0;
  } else {
    return count_members<T, kCount - 1>();
  }
}

// clang-format off
template <class T>
auto members_of(const T& value) {
  constexpr size_t kCount = count_members<T>();
  if constexpr (kCount == 0) {
    return std::tuple<>();
  } else if constexpr (kCount == 1) {
    const auto& [a] = value; return std::tie(a);
  } else if constexpr (kCount == 2) {
    const auto& [a, b] = value; return std::tie(a, b);
  } else if constexpr (kCount == 3) {
    const auto& [a, b, c] = value; return std::tie(a, b, c);
  } else if constexpr (kCount == 4) {
    const auto& [a, b, c, d] = value; return std::tie(a, b, c, d);
  } else if constexpr (kCount == 5) {
    const auto& [a, b, c, d, e] = value; return std::tie(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    const auto& [a, b, c, d, e, f] = value; return std::tie(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    const auto& [a, b, c, d, e, f, g] = value; return std::tie(a, b, c, d, e, f, g);
  } else {
    const auto& [a, b, c, d, e, f, g, h] = value; return std::tie(a, b, c, d, e, f, g, h);
  }
}
// clang-format on

// Visits each of the parts of a tuple.
template <class Visit>
struct VisitParts;

}  // namespace detail

/// Calls `visit` with each defined tensor of a value: a tensor, a container, pair, tuple or
/// optional of such values, or a plain struct of at most 8 of them. Numbers, texts and enumerations
/// have none. Any other type does not compile.
template <class T, class Visit>
void visit_tensors(const T& value, const Visit& visit) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (value.defined()) visit(value);
  } else if constexpr (requires {
                         value.begin();
                         value.end();
                       }) {
    for (const auto& part : value) visit_tensors(part, visit);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply(detail::VisitParts<Visit>{visit}, value);
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    if (value.has_value()) visit_tensors(*value, visit);
  } else if constexpr (std::is_class_v<T>) {
    static_assert(std::is_aggregate_v<T>,
                  "no tensors can be found in this type: expected tensors, containers or tuples of "
                  "them, or a plain struct");
    std::apply(detail::VisitParts<Visit>{visit}, detail::members_of(value));
  } else {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>,
                  "no tensors can be found behind a pointer");
  }
}

template <class Visit>
struct detail::VisitParts {
  const Visit& visit;
  template <class... Parts>
  void operator()(const Parts&... parts) const {
    (visit_tensors(parts, visit), ...);
  }
};

}  // namespace wick::dist
