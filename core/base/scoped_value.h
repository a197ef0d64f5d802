#pragma once

#include <utility>

namespace wick {

/// Gives a variable of one thread another value while it lives.
template <class T>
class ScopedValue {
 public:
  ScopedValue(T& variable, T value)
      : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  ~ScopedValue() { variable_ = std::move(before_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

  /// The value that the variable had, and gets back.
  const T& before() const { return before_; }

 private:
  T& variable_;
  T before_;
};

}  // namespace wick
