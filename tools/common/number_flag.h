#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace wick::tool {

constexpr size_t kMaxShown = 80;  // characters of a wrong value that an error shows

/// What is wrong with a word for a whole number, or "". Octal and hexadecimal ones are wrong.
std::string check_whole_number(const std::string& word);

/// A check of a word for a whole number from `low` to `high`: what is wrong with it, or "".
std::function<std::string(const std::string& word)> whole_number_in(double low, double high);

/// Gives `app` a flag for a number from `low` to `high`, whose default is what `value` is. Any
/// other word is an error of parsing that names the flag.
void add_number_flag(CLI::App& app, const std::string& name, int64_t& value, double low,
                     double high, const std::string& help);
void add_number_flag(CLI::App& app, const std::string& name, double& value, double low, double high,
                     const std::string& help);

}  // namespace wick::tool
