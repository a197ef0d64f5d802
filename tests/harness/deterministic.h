#pragma once

#include "wick/core/base/deterministic.h"

namespace wick::testing {

/// Asks for deterministic algorithms, or for any, as long as it lives: also where a test throws.
class Deterministic {
 public:
  explicit Deterministic(bool on = true) : before_(deterministic()) { set_deterministic(on); }
  ~Deterministic() { set_deterministic(before_); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  bool before_;
};

}  // namespace wick::testing
