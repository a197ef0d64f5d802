#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "wick/core/base/device.h"
#include "wick/core/base/dtype.h"
#include "wick/core/base/shape.h"
#include "wick/core/scalar.h"

namespace wick {

/// The value of an op's field in a form that can be printed, compared and stored. std::monostate
/// stands for a field of a type that has no such form. Dtypes and devices are texts.
using Attribute =
    std::variant<std::monostate, bool, int64_t, double, std::vector<int64_t>, std::string>;

/// A field of an op: its name, which lasts as long as the program, and its value.
struct NamedAttribute {
  const char* name;
  Attribute value;
};

/// The dtype that to_string() writes so; none if there is no such.
std::optional<Dtype> parse_dtype(std::string_view text);
/// As a graph is printed: "0.5", "[1, 2]", "?" for std::monostate.
std::string to_string(const Attribute& attribute);

namespace detail {

template <class T>
concept IntegerList = requires(const T& list) {
  {list.begin()};
  {list.end()};
  { *list.begin() } -> std::convertible_to<int64_t>;
}
&&std::integral<std::remove_cvref_t<decltype(*std::declval<const T&>().begin())>>;

// As fn::Number: a constant for floating and for integer computation.
template <class T>
concept TwoFoldNumber = requires(T& number) {
  { number.real } -> std::same_as<double&>;
  { number.integer } -> std::same_as<int64_t&>;
};

/// A number that is kept as an integer and as a real: the integer where both are equal (-0.0 is not
/// 0), the real otherwise.
Attribute to_attribute(int64_t integer, double real);

template <class T>
Attribute to_attribute(const T& value) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, Dtype> || std::is_same_v<T, Device>) {
    return std::string(to_string(value));
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    return static_cast<int64_t>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (std::is_same_v<T, Scalar>) {
    return value.is_integral() ? Attribute(value.to_int64()) : Attribute(value.to_double());
  } else if constexpr (TwoFoldNumber<T>) {
    return to_attribute(value.integer, value.real);
  } else if constexpr (IntegerList<T>) {
    return std::vector<int64_t>(value.begin(), value.end());
  } else {
    return std::monostate();
  }
}

template <class T>
bool fits(int64_t value) {
  return static_cast<int64_t>(static_cast<T>(value)) == value;
}

// Gives `value` what an attribute says; false if it is of another kind.
template <class T>
bool from_attribute(const Attribute& attribute, T& value) {
  const auto* whole = std::get_if<int64_t>(&attribute);
  const auto* real = std::get_if<double>(&attribute);
  const auto* list = std::get_if<std::vector<int64_t>>(&attribute);
  const auto* text = std::get_if<std::string>(&attribute);
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    const auto* given = std::get_if<T>(&attribute);
    if (given != nullptr) value = *given;
    return given != nullptr;
  } else if constexpr (std::is_same_v<T, Dtype>) {
    const std::optional<Dtype> dtype = text != nullptr ? parse_dtype(*text) : std::nullopt;
    if (dtype) value = *dtype;
    return dtype.has_value();
  } else if constexpr (std::is_same_v<T, Device>) {
    if (text != nullptr) value = parse_device(*text);
    return text != nullptr;
  } else if constexpr (std::is_enum_v<T>) {
    if (whole == nullptr || !fits<std::underlying_type_t<T>>(*whole)) return false;
    value = static_cast<T>(*whole);
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    if (whole == nullptr || !fits<T>(*whole)) return false;
    value = static_cast<T>(*whole);
    return true;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (real != nullptr) value = static_cast<T>(*real);
    return real != nullptr;
  } else if constexpr (std::is_same_v<T, Scalar> || TwoFoldNumber<T>) {
    if (whole == nullptr && real == nullptr) return false;
    const Scalar scalar = whole != nullptr ? Scalar(*whole) : Scalar(*real);
    if constexpr (std::is_same_v<T, Scalar>) {
      value = scalar;
    } else {
      value.real = scalar.to_double();
      value.integer = scalar.to_int64();
    }
    return true;
  } else if constexpr (std::is_same_v<T, Shape>) {
    if (list == nullptr || list->size() > kMaxRank) return false;
    value = Shape(*list);
    return true;
  } else if constexpr (IntegerList<T>) {
    if (list == nullptr) return false;
    if constexpr (requires { value.assign(list->begin(), list->end()); }) {
      value.assign(list->begin(), list->end());
    } else {
      if (list->size() != value.size()) return false;
      for (size_t i = 0; i < list->size(); ++i) value[i] = (*list)[i];
    }
    return true;
  } else {
    return false;
  }
}

}  // namespace detail
}  // namespace wick
