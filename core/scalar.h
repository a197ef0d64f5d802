#pragma once

#include <concepts>
#include <cstdint>

namespace wick {

/// A number that keeps whether it was written as an integer or with a fraction: `x + 1` leaves an
/// int64 tensor int64, `x + 1.0` makes it float32.
class Scalar {
 public:
  Scalar() : Scalar(0) {}
  template <std::floating_point T>
  Scalar(T value) : real_(static_cast<double>(value)), integer_(truncate(real_)) {}
  template <std::integral T>
  Scalar(T value)
      : real_(static_cast<double>(value)),
        integer_(static_cast<int64_t>(value)),
        is_integral_(true) {}

  bool is_integral() const { return is_integral_; }  // made of an integer or a bool
  double to_double() const { return real_; }         // integers above 2^53 are rounded
  /// A floating number rounded towards zero. Out of range it becomes the nearest limit, NaN 0.
  int64_t to_int64() const { return integer_; }

 private:
  // Towards zero; the end of the range for what lies beyond it, and 0 for NaN.
  static int64_t truncate(double value) {
    if (value >= 0x1p63) return INT64_MAX;
    if (value < -0x1p63) return INT64_MIN;
    return value == value ? static_cast<int64_t>(value) : 0;
  }

  double real_;
  int64_t integer_;
  bool is_integral_ = false;
};

}  // namespace wick
