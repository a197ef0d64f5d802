#include "wick/tools/common/number_flag.h"

#include <CLI/CLI.hpp>

#include "wick/core/base/check.h"
#include "wick/core/options.h"

namespace wick::tool {

namespace {

template <class T>
auto number_in(double low, double high) {
  return [low, high](const std::string& word) -> std::string {
    if (word.empty()) return "the value is empty";
    if constexpr (std::is_same_v<T, int64_t>) {
      if (std::string wrong = check_whole_number(word); !wrong.empty()) return wrong;
    }
    T number{};
    if (!CLI::detail::lexical_cast(word, number)) {
      return concat("expected a number, got ", word.substr(0, kMaxShown));
    }
    const auto v = static_cast<double>(number);
    if (v >= low && v <= high) return "";  // which NaN is not
    return concat("out of range: got ", word.substr(0, kMaxShown), ", expected ", low, " to ",
                  high);
  };
}

template <class T>
void add_number(CLI::App& app, const std::string& name, T& value, double low, double high,
                const std::string& help) {
  app.add_option(name, value, help)->check(number_in<T>(low, high))->capture_default_str();
}

}  // namespace

std::string check_whole_number(const std::string& word) {
  if (is_whole_number(word)) return "";
  return concat("expected a whole number, got ", word.substr(0, kMaxShown));
}

std::function<std::string(const std::string& word)> whole_number_in(double low, double high) {
  return number_in<int64_t>(low, high);
}

void add_number_flag(CLI::App& app, const std::string& name, int64_t& value, double low,
                     double high, const std::string& help) {
  add_number(app, name, value, low, high, help);
}
void add_number_flag(CLI::App& app, const std::string& name, double& value, double low, double high,
                     const std::string& help) {
  add_number(app, name, value, low, high, help);
}

}  // namespace wick::tool
