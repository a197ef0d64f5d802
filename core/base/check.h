#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace wick {

/// Every error the library reports. The text has the form
/// "op: what is wrong: what was seen, what was expected".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How an allocator stood, in bytes.
struct MemoryFigures {
  uint64_t allocated = 0;           // in live blocks
  uint64_t reserved = 0;            // held, live or cached
  uint64_t free = 0;                // cached
  uint64_t largest_free_block = 0;  // of these
};

/// Memory could not be had. The process may go on: free tensors and try again.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, uint64_t requested_bytes,
              const MemoryFigures& figures = {})
      : Error(message), requested_bytes_(requested_bytes), figures_(figures) {}
  /// What the failed call asked for; 0 if that is not known.
  uint64_t requested_bytes() const { return requested_bytes_; }
  /// Of the allocator then; all 0 if it was not one that failed.
  const MemoryFigures& figures() const { return figures_; }

 private:
  uint64_t requested_bytes_;
  MemoryFigures figures_;
};

/// A GPU failed in a way that it recovers from in no call of this process (a kernel touched memory
/// that is not there, an uncorrectable memory error): every later use of it throws this again. Save
/// nothing from it, and start anew.
class DeviceError : public Error {
 public:
  using Error::Error;
};

namespace detail {

/// The op that this thread carries out now, for errors of what runs below it; "" outside any.
const char*& current_op();

/// A part of a text, of which a pointer is kept: a number, a string, or anything with a
/// `to_string`.
class Part {
 public:
  template <class T>
  Part(const T& value) : value_(&value), append_(&append_any<T>) {}
  template <size_t kSize>
  Part(const char (&text)[kSize]) : value_(text), append_(&append_characters) {}

  void append_to(std::string& text) const { append_(text, value_); }

 private:
  static void append(std::string& text, double value);
  static void append(std::string& text, int64_t value);
  static void append(std::string& text, uint64_t value);
  static void append(std::string& text, bool value);
  static void append(std::string& text, char value);
  static void append(std::string& text, std::string_view value);
  static void append_characters(std::string& text, const void* characters);

  template <class T>
  static void append_any(std::string& text, const void* pointer) {
    const T& value = *static_cast<const T*>(pointer);
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, char>) {
      append(text, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      append(text, static_cast<double>(value));
    } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      append(text, static_cast<int64_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      append(text, static_cast<uint64_t>(value));
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      append(text, std::string_view(value));
    } else {
      append(text, std::string_view(to_string(value)));
    }
  }

  const void* value_;
  void (*append_)(std::string& text, const void* value);
};

std::string join(std::initializer_list<Part> parts);
[[noreturn, gnu::cold]] void fail_with(std::initializer_list<Part> parts);

/// Throws wick::Error with the parts joined.
template <class... Parts>
[[noreturn, gnu::always_inline]] inline void fail(const Parts&... parts) {
  fail_with({Part(parts)...});
}

}  // namespace detail

/// Joins the parts into one text: numbers, strings, and anything with a `to_string`.
template <class... Parts>
std::string concat(const Parts&... parts) {
  return detail::join({detail::Part(parts)...});
}

}  // namespace wick

/// Throws wick::Error with the remaining arguments joined, unless `condition` holds. The text is
/// built only on failure.
#define WICK_CHECK(condition, ...)       \
  do {                                   \
    if (!(condition)) [[unlikely]]       \
      ::wick::detail::fail(__VA_ARGS__); \
  } while (false)
