#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wick/core/file.h"

namespace wick::profile {

/// Writes a large JSON file piece by piece; the file is there once it is whole.
class JsonStream {
 public:
  explicit JsonStream(const std::string& path) : file_(path) {}

  JsonStream& raw(std::string_view text);
  /// A string in quotes, of valid JSON whatever bytes it holds.
  JsonStream& text(std::string_view value);
  JsonStream& number(int64_t value);
  /// Nanoseconds as microseconds with three digits behind the point.
  JsonStream& microseconds(int64_t nanoseconds);

  int64_t bytes() const { return written_ + static_cast<int64_t>(buffer_.size()); }
  void commit();

 private:
  void flush();

  AtomicFile file_;
  std::string buffer_;
  int64_t written_ = 0;
};

}  // namespace wick::profile
