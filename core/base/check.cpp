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

void append(std::string& out, double value) { append_number(out, value); }
void append(std::string& out, int64_t value) { append_number(out, value); }
void append(std::string& out, uint64_t value) { append_number(out, value); }

}  // namespace wick::detail
