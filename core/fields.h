#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace wick {

/// Names a data member of a plain struct. A struct lists its fields after its members:
///   static constexpr auto fields = std::tuple{field("axis", &Softmax::axis)};
/// so that ops can be printed.
template <class Owner, class T>
struct Field {
  const char* name;
  T Owner::*member;
};

template <class Owner, class T>
constexpr Field<Owner, T> field(const char* name, T Owner::*member) {
  return {name, member};
}

namespace detail {
template <class Owner, class Visit, size_t... I>
void visit_fields(Owner& object, const Visit& visit, std::index_sequence<I...>) {
  constexpr auto& fields = std::remove_const_t<Owner>::fields;
  (visit(std::get<I>(fields).name, object.*std::get<I>(fields).member), ...);
}
}  // namespace detail

/// Calls `visit(name, value)` for each listed field of `object`.
template <class Owner, class Visit>
void for_each_field(Owner& object, const Visit& visit) {
  using Fields = std::remove_const_t<decltype(std::remove_const_t<Owner>::fields)>;
  detail::visit_fields(object, visit, std::make_index_sequence<std::tuple_size_v<Fields>>());
}

}  // namespace wick
