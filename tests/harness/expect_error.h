#pragma once

#include <string>

#include "wick/core/base/check.h"

namespace wick::testing {

/// The text of the wick::Error that `action` throws, or "no error".
template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace wick::testing
