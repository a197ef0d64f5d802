#pragma once

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <string>

namespace wick::tool {

/// Whether a flag's value is a number from `low` to `high`. CLI::Range lets NaN through.
inline CLI::Validator number_between(double low, double high) {
  const std::string expected = fmt::format("expected a number from {} to {}", low, high);
  const auto check = [=](const std::string& word) {
    double value = 0;
    const bool good =
        CLI::detail::lexical_cast(word, value) && value >= low && value <= high;  // no NaN is
    return good ? std::string() : "got " + word + ", " + expected;
  };
  return {check, fmt::format("FLOAT in [{} - {}]", low, high)};
}

}  // namespace wick::tool
