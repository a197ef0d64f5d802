#include "wick/tools/common/recipe_flags.h"

#include <CLI/CLI.hpp>

namespace wick::tool {

namespace {

std::string variable_name(const std::string& key) {
  std::string name = "WICK_";
  for (const char c : key) name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return name;
}

std::string type_name(const OptionField& field) {
  const OptionField::Value& value = field.value();
  if (std::holds_alternative<std::string*>(value)) return "TEXT";
  if (std::holds_alternative<std::vector<double>*>(value)) return "NUMBERS";
  const bool is_whole = std::holds_alternative<int64_t*>(value) ||
                        std::holds_alternative<std::optional<int64_t>*>(value);
  const std::string name = is_whole ? "INT" : "FLOAT";
  return field.word().empty() ? name : name + "|" + field.word();
}

CLI::Option* add_flag(CLI::App& app, const OptionField& field, const std::string& group) {
  const std::string flag = flag_name(field.key());
  CLI::Option* option = nullptr;
  if (field.is_flag()) {
    option = app.add_flag(flag, *std::get<bool*>(field.value()), field.help());
  } else {
    const auto set = [field, flag](const std::string& word) {
      try {
        field.parse(word);
      } catch (const InvalidOption& error) {
        throw CLI::ValidationError(flag, error.problem());
      }
    };
    option = app.add_option_function<std::string>(flag, set, field.help());
    option->type_name(type_name(field));
    if (const std::string& alone = field.value_alone(); !alone.empty()) {
      option->expected(0, 1)->default_str(alone)->type_name("[FLOAT] alone");
    } else if (const std::string usual = field.as_text(); !usual.empty()) {
      option->default_str(usual);
    }
  }
  // Short help leaves out what has no group.
  option->group(field.is_basic() ? group : "")->envname(variable_name(field.key()));
  return option;
}

}  // namespace

std::string flag_name(std::string key) {
  for (char& c : key) c = c == '_' ? '-' : c;
  return "--" + key;
}

void add_recipe_flags(CLI::App& app, train::Recipe& recipe) {
  std::vector<std::pair<CLI::Option*, std::string>> groups;
  for (const train::OptionGroup& group : train::groups(recipe)) {
    for (const OptionField& field : group.fields) {
      groups.emplace_back(add_flag(app, field, group.title), group.title);
    }
  }
  const auto show_all = [groups] {
    for (const auto& [option, title] : groups) option->group(title);
    throw CLI::CallForHelp();
  };
  app.add_flag_callback("--help-all", show_all, "print all flags and exit")->trigger_on_parse();
}

void apply_recipe_file(const CLI::App& app, const std::string& path, train::Recipe& recipe) {
  read_options(train::fields(recipe), path, [&](const std::string& key) {
    const CLI::Option* option = app.get_option_no_throw(flag_name(key));
    return option != nullptr && option->count() > 0;
  });
}

}  // namespace wick::tool
