#pragma once

#include <tuple>
#include <type_traits>

namespace wick {

/// Names a data member of a plain struct. A struct lists its fields after its members:
///   static constexpr auto fields = std::tuple{field("axis", &Softmax::axis)};
/// so that ops can be printed and options be read, written and stored by name.
template <class Owner, class T>
struct Field {
  const char* name;
  T Owner::*member;
};

template <class Owner, class T>
constexpr Field<Owner, T> field(const char* name, T Owner::*member) {
  return {name, member};
}

/// Calls `visit(name, value)` for each listed field of `object`.
template <class Owner, class Visit>
void for_each_field(Owner& object, const Visit& visit) {
  std::apply([&](const auto&... f) { (visit(f.name, object.*f.member), ...); },
             std::remove_const_t<Owner>::fields);
}

}  // namespace wick
