#include "wick/tools/common/command_line.h"

#include <CLI/CLI.hpp>

#include <map>

#include "wick/core/base/check.h"
#include "wick/tools/common/usage_error.h"

namespace wick::tool {

namespace {

bool is_flag(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

void refuse_empty(const std::string& name, const std::string& value) {
  if (value.empty()) throw UsageError(name + ": the value is empty");
}

// Notes what an option of one value was given; error where it had one before.
void refuse_second(std::map<const CLI::Option*, std::string>& given, const CLI::Option* option,
                   const std::string& name, const std::string& value) {
  if (option->get_items_expected_max() != 1 ||
      option->get_multi_option_policy() != CLI::MultiOptionPolicy::Throw) {
    return;
  }
  const auto [before, is_first] = given.emplace(option, value);
  if (is_first) return;
  const auto shown = [](const std::string& text) { return text.empty() ? "no value" : text; };
  throw UsageError(concat(name, ": the flag is given twice: got ", shown(before->second), " and ",
                          shown(value), ", expected it once"));
}

CLI::App* find_subcommand(CLI::App& app, const std::string& word) {
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == word) return sub;
  }
  return nullptr;
}

}  // namespace

void check_words(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* called = &app;
  std::map<const CLI::Option*, std::string> given;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (!is_flag(word)) {
      if (CLI::App* sub = find_subcommand(*called, word)) called = sub;
      if (word.empty()) throw UsageError("a word is empty: expected none, or one that says more");
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = called->get_option_no_throw(name);
    if (option == nullptr || option->get_expected_max() == 0) continue;
    if (equals != std::string::npos) {
      if (option->get_expected_min() > 0) refuse_empty(name, word.substr(equals + 1));
      refuse_second(given, option, name, word.substr(equals + 1));
      continue;
    }
    if (option->get_expected_min() == 0 && (i + 1 == words.size() || is_flag(words[i + 1]))) {
      refuse_second(given, option, name, "");
      continue;  // which means something alone
    }
    if (i + 1 == words.size()) throw UsageError(name + ": the value is missing");
    const std::string& value = words[++i];
    refuse_empty(name, value);
    if (is_flag(value)) {
      throw UsageError(concat(name, ": the value is missing: got ", value,
                              ", which is a flag (a value like it is given as ", name, "=", value,
                              ")"));
    }
    refuse_second(given, option, name, value);
  }
}

}  // namespace wick::tool
