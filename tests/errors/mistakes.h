#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "wick/core/base/check.h"

namespace wick::testing {

/// A likely mistake, and the whole text of the error that it gives.
struct Mistake {
  const char* name;
  std::function<void()> make;
  std::string text;
};

/// Makes each mistake, and compares the text of its error.
inline void expect_texts(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    std::string text = "no error";
    try {
      mistake.make();
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_EQ(text, mistake.text) << mistake.name;
  }
}

}  // namespace wick::testing
