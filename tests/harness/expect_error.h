#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

/// Expects `call` to throw wick::Error with a text that holds all of `parts`.
template <class Call>
void expect_error(const Call& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one with \"" << parts[0] << "\"";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
    }
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

}  // namespace wick::testing
