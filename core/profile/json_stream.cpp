#include "wick/core/profile/detail/json_stream.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace wick::profile {

namespace {
constexpr size_t kPiece = size_t{1} << 18;
}

JsonStream& JsonStream::raw(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kPiece) flush();
  return *this;
}

JsonStream& JsonStream::text(std::string_view value) {
  const bool is_plain = value.find_first_of("\"\\") == value.npos && [&] {
    for (const char c : value) {
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
        return false;
      }
    }
    return true;
  }();
  if (is_plain) return raw("\"").raw(value).raw("\"");
  return raw(nlohmann::json(std::string(value))
                 .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

JsonStream& JsonStream::number(int64_t value) { return raw(std::to_string(value)); }

JsonStream& JsonStream::microseconds(int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%lld.%03lld", nanoseconds < 0 ? "-" : "",
                static_cast<long long>(std::abs(nanoseconds) / 1000),
                static_cast<long long>(std::abs(nanoseconds) % 1000));
  return raw(text);
}

void JsonStream::flush() {
  file_.write(buffer_);
  written_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
}

void JsonStream::commit() {
  flush();
  file_.commit();
}

}  // namespace wick::profile
