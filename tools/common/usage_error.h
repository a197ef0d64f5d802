#pragma once

#include <stdexcept>

namespace wick::tool {

/// A mistake in how the program was called: exit code kUsageExit.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace wick::tool
