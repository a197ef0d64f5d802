#include "wick/core/attribute.h"

#include <cmath>

#include "wick/core/base/check.h"

namespace wick {

namespace detail {

Attribute to_attribute(int64_t integer, double real) {
  const bool is_whole =
      static_cast<double>(integer) == real && !(integer == 0 && std::signbit(real));
  return is_whole ? Attribute(integer) : Attribute(real);
}

}  // namespace detail

std::optional<Dtype> parse_dtype(std::string_view text) {
  for (const Dtype dtype :
       {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32, kUint8, kBool}) {
    if (to_string(dtype) == text) return dtype;
  }
  return std::nullopt;
}

std::string to_string(const Attribute& attribute) {
  if (const auto* value = std::get_if<bool>(&attribute)) return *value ? "true" : "false";
  if (const auto* value = std::get_if<int64_t>(&attribute)) return concat(*value);
  if (const auto* value = std::get_if<double>(&attribute)) return concat(*value);
  if (const auto* value = std::get_if<std::string>(&attribute)) return *value;
  const auto* list = std::get_if<std::vector<int64_t>>(&attribute);
  if (list == nullptr) return "?";
  std::string text = "[";
  for (const int64_t value : *list) text += (text.size() > 1 ? ", " : "") + concat(value);
  return text + "]";
}

}  // namespace wick
