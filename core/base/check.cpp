#include "wick/core/base/check.h"

#include <charconv>

namespace wick::detail {

const char*& current_op() {
  static thread_local const char* op = "";
  return op;
}

namespace {
template <class T>
void append_number(std::string& out, T value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}
}  // namespace

void Part::append(std::string& text, double value) { append_number(text, value); }
void Part::append(std::string& text, int64_t value) { append_number(text, value); }
void Part::append(std::string& text, uint64_t value) { append_number(text, value); }
void Part::append(std::string& text, bool value) { text += value ? "true" : "false"; }
void Part::append(std::string& text, char value) { text += value; }
void Part::append(std::string& text, std::string_view value) { text += value; }
void Part::append_characters(std::string& text, const void* characters) {
  text += static_cast<const char*>(characters);
}

std::string join(std::initializer_list<Part> parts) {
  std::string text;
  for (const Part& part : parts) part.append_to(text);
  return text;
}

void fail_with(std::initializer_list<Part> parts) { throw Error(join(parts)); }

}  // namespace wick::detail
